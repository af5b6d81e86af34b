"""Workers that hear no notifications are woken through RabbitMQ; its death in the middle of 1,000 jobs costs one warning.

The workers' way to the database is a pooler in transaction mode, through which no notification gets.
"""

import json
import statistics

from servers import Broker, Pgbouncer
from world import APP, TENANT, WORKER, check, figure, tell, wait_until

JOBS, QUEUE, LONE = 1000, "story", 9
KINDS = ("--queue", QUEUE, "--tenant", TENANT)


def broker(world):
    world.dev("--no-demo")
    bouncer = Pgbouncer(world, world.url, (APP, WORKER))
    app, worker = bouncer.url(APP), bouncer.url(WORKER)
    server = Broker(world)
    told = {"url": app, "JOBFORGE_BROKER__URL": server.url}
    process = world.work("worker", worker, "--queues", QUEUE, "--slots", "4", JOBFORGE_BROKER__URL=server.url)
    wait_until("the worker has found the broker", lambda: says(world, "the broker is there") == 1)
    wait_until("the worker has noticed that it is deaf", lambda: "no notifications arrive" in world.log("worker"), seconds=90)

    without = lone(world, told)
    hinted = lone(world, told, "--hint")
    check("median seconds of lone jobs: looked for, hinted at", hinted < without, f"{without:.2f}, {hinted:.2f}")

    world.answer("enqueue", "demo.sleep", "--payload", '{"ms": 30}', "--count", JOBS, "--hint", *KINDS, **told)
    before = wait_until("a quarter is done", lambda: (n := done(world)) >= JOBS // 4 + 2 * LONE and n)
    server.kill()
    wait_until("the worker noticed", lambda: says(world, "the broker is away") > 0)
    figure("jobs over when the broker was killed, when it was noticed", f"{before - 2 * LONE}, {done(world) - 2 * LONE}")
    late = world.jobforge("enqueue", "demo.echo", "--hint", *KINDS, **told)
    check("an enqueue with a hint while it is away: exit code", late.returncode == 0, late.returncode)
    check("    warnings it prints", late.stderr.count("the broker is away") == 1, 1)
    total = JOBS + 2 * LONE + 1
    wait_until("all jobs are over", lambda: done(world) == total, seconds=120)
    check("jobs that succeeded, of them enqueued without the broker", done(world) == total, f"{total - 2 * LONE}, 1")
    check("warnings of the worker about the broker", says(world, "the broker is away") == 1, 1)
    check("other warnings and errors of the worker", not (other := complaints(world)), len(other) if not other else other[:3])

    server.start()
    wait_until("the worker has found it again", lambda: says(world, "the broker is back") == 1)
    check("lines that say that it is back", says(world, "the broker is back") == 1, 1)
    again = lone(world, told, "--hint")
    check("median seconds of lone jobs, hinted at again", again < without, f"{again:.2f}")
    check("the worker is the process it was", process.poll() is None)
    failures = world.value(world.url(APP), "select sum(deaths + failures) from jobforge.job_history", tenant=TENANT)
    check("deaths and failures on the way", failures == "0", failures)


def lone(world, told, *flags):
    """Jobs that come one by one to an idle worker: the median of the seconds they take."""
    ids = []
    for _ in range(LONE):
        before = done(world)
        ids.append(world.answer("enqueue", "demo.echo", *flags, *KINDS, **told)["id"])
        wait_until("a lone job is over", lambda: done(world) > before, every=0.05)
    listed = ",".join(f"'{job}'" for job in ids)
    rows = world.sql(world.url(APP), f"""select extract(epoch from finished_at - created_at) from jobforge.job_history
        where id in ({listed})""", tenant=TENANT)
    return statistics.median(float(row[0]) for row in rows)


def done(world):
    return int(world.value(world.url(APP), f"""select count(*) from jobforge.job_history
        where queue = '{QUEUE}' and status = 'succeeded'""", tenant=TENANT))


def says(world, words):
    return world.log("worker").count(words)


def complaints(world):
    """What the worker warns about beside the broker and its deafness."""
    lines = [json.loads(line) for line in world.log("worker").splitlines() if line.startswith("{")]
    known = ("the broker is away", "no notifications arrive")
    return [line["message"] for line in lines
            if line["level"] in ("WARN", "ERROR") and not any(words in line["message"] for words in known)]


if __name__ == "__main__":
    tell(broker)
