"""Why does my job not run? Each reason is brought about, told by `jobforge jobs explain`, and cleared."""

import json
import os
import signal

from world import APP, OPERATOR, TENANT, WORKER, check, figure, tell, wait_until


def explain(world):
    world.dev("--no-demo")
    app, operator = world.url(APP), world.url(OPERATOR)

    def enqueue(kind="demo.echo", payload="{}", **named):
        more = "".join(f", p_{name} => {value}" for name, value in named.items())
        sql = f"select id from jobforge.enqueue_job('{TENANT}', '{kind}', '{payload}'{more})"
        return world.value(app, sql, tenant=TENANT)

    def told(job):
        done = world.jobforge("jobs", "explain", job, "--json", "--tenant", TENANT, url=app)
        return json.loads(done.stdout)

    def expect(what, job, reason):
        first = told(job)[0]
        check(what, first["reason"] == reason, f"{first['reason']}: {first['says']}")
        return first["detail"]

    def reach(what, job, reason, seconds=90):
        wait_until(what, lambda: told(job)[0]["reason"] == reason, seconds=seconds, every=0.3)
        return expect(what, job, reason)

    tomorrow = {"queue": "'own'", "run_at": "clock_timestamp() + interval '1 day'"}
    expect("a job for tomorrow", enqueue(**tomorrow), "scheduled")
    detail = expect("a job in a queue that nobody serves", enqueue(queue="'nowhere'"), "no_worker")
    check("workers that know its type elsewhere", detail["elsewhere"] >= 1, detail["elsewhere"])

    # What runs at once could be over before it is explained: two of the pauses are told of a job for tomorrow.
    worker = world.work("own", world.url(WORKER), "--queues", "own", "--slots", "1")
    for kind, name in (("queue", "own"), ("tenant", TENANT), ("definition", "demo.echo")):
        world.sql(operator, f"select jobforge.pause('{kind}', '{name}', 'a test of explain')")
        job = enqueue(queue="'own'") if kind == "tenant" else enqueue(**tomorrow)
        paused = [one["reason"] for one in told(job)]
        check(f"a paused {kind}", f"{kind}_paused" in paused, ", ".join(paused))
        world.sql(operator, f"select jobforge.resume('{kind}', '{name}')")
        if kind == "tenant":
            reach("  after its resume", job, "finished")
        else:
            expect("  after its resume", job, "scheduled")

    job = enqueue("demo.sleep", '{"ms": 600000}', queue="'own'")
    detail = reach("a job that runs", job, "running")
    check("its worker is told", detail["worker_id"] != "", detail["worker_id"])
    os.killpg(worker.pid, signal.SIGKILL)
    reach("its worker was killed: it waits again", job, "waiting_turn")
    reach("and nobody is heard of for 90 s", job, "no_worker", seconds=120)
    world.sql(app, f"select status from jobforge.cancel_job('{TENANT}', '{job}')", tenant=TENANT)
    expect("canceled", job, "finished")

    done = world.jobforge("jobs", "explain", "00000000-0000-4000-8000-00000000dead", "--tenant", TENANT, url=app)
    check("an unknown job", done.returncode == 1 and "JF007" in done.stderr, f"exit code {done.returncode}, JF007")

    # What came and went is counted by the scheduler's samples, every ten seconds.
    hour = wait_until("the samples count the jobs", lambda: sampled(world, app), seconds=40, every=1)
    figure("last hour: enqueued, completed, canceled", f"{hour['enqueued']}, {hour['completed']}, {hour['canceled']}")
    queues = json.loads(world.jobforge("queues", "--json", url=operator).stdout)
    waiting = {queue["queue"]: queue["queued"] for queue in queues}
    check("jobs that wait in the two queues", (waiting["own"], waiting["nowhere"]) == (3, 1), waiting)


def sampled(world, app):
    summary = world.jobforge("jobs", "summary", "--json", "--tenant", TENANT, url=app)
    hour = json.loads(summary.stdout)["hour"]
    return hour if hour and hour["completed"] and hour["canceled"] else None


if __name__ == "__main__":
    tell(explain)
