"""Why does my job not run? Each reason is brought about, told by `jobforge jobs explain`, and cleared."""

import json
import os
import signal

from world import APP, OPERATOR, TENANT, WORKER, check, figure, tell, wait_until


def explain(world):
    world.dev("--no-demo")
    app, operator = world.url(APP), world.url(OPERATOR)

    def enqueue(kind="demo.echo", payload="{}", **named):
        named = "".join(f", p_{name} => {value}" for name, value in named.items())
        return world.value(app, f"select id from jobforge.enqueue_job('{TENANT}', '{kind}', '{payload}'{named})", tenant=TENANT)

    def told(job):
        done = world.jobforge("jobs", "explain", job, "--json", "--tenant", TENANT, url=app)
        return json.loads(done.stdout)

    def expect(what, job, reason):
        answer = told(job)
        check(what, answer[0]["reason"] == reason, f"{answer[0]['reason']}: {answer[0]['says']}")
        return answer[0]

    job = enqueue(run_at="clock_timestamp() + interval '1 day'")
    expect("a job for tomorrow", job, "scheduled")
    job = enqueue(queue="'nowhere'")
    reason = expect("a job in a queue that nobody serves", job, "no_worker")
    check("workers for its type elsewhere", reason["detail"]["elsewhere"] >= 1, reason["detail"]["elsewhere"])

    # A queue of the story's own, whose worker can be killed.
    worker = world.work("own", world.url(WORKER), "--queues", "own", "--slots", "1")
    for kind, name in (("queue", "own"), ("tenant", TENANT), ("definition", "demo.echo")):
        world.sql(operator, f"select jobforge.pause('{kind}', '{name}', 'a test of explain')")
        job = enqueue(queue="'own'") if kind == "tenant" else enqueue(queue="'own'", run_at="clock_timestamp() + interval '1 day'")
        reasons = [one["reason"] for one in told(job)]
        check(f"a paused {kind}", f"{kind}_paused" in reasons, ", ".join(reasons))
        world.sql(operator, f"select jobforge.resume('{kind}', '{name}')")
        reasons = [one["reason"] for one in told(job)]
        check("  after its resume", f"{kind}_paused" not in reasons, ", ".join(reasons))
    wait_until("the paused tenant's job runs after the resume", lambda: told(job) and count_ready(world, app) == 0)

    # Its one slot is taken: the second job waits for its turn.
    first = enqueue("demo.sleep", '{"ms": 600000}', queue="'own'")
    wait_until("the first one runs", lambda: told(first)[0]["reason"] == "running")
    running = expect("the one that runs", first, "running")
    check("its worker is told", running["detail"]["worker_id"] != "", running["detail"]["worker_id"])
    second = enqueue("demo.sleep", '{"ms": 1}', queue="'own'")
    wait_until("it waits for its turn, or in the worker's buffer",
               lambda: told(second)[0]["reason"] in ("waiting_turn", "running"), seconds=10)
    figure("the second one", told(second)[0]["says"])

    os.killpg(worker.pid, signal.SIGKILL)
    reason = wait_until("the lost worker is told", lambda: [r for r in (told(first)[0],) if r["reason"] != "running"], seconds=90)[0]
    check("after the worker's death", reason["reason"] in ("lost", "scheduled", "waiting_turn", "no_worker"), reason["reason"])
    world.sql(app, f"select status from jobforge.cancel_job('{TENANT}', '{first}')", tenant=TENANT)
    expect("canceled", first, "finished")

    done = world.jobforge("jobs", "explain", "00000000-0000-4000-8000-00000000dead", "--tenant", TENANT, url=app)
    check("an unknown job", done.returncode == 1 and "JF007" in done.stderr, f"exit code {done.returncode}, JF007")

    # What came and went is counted by the scheduler's samples, every ten seconds.
    summary = wait_until("the samples count the jobs", lambda: sampled(world, app), seconds=40, every=1)
    figure("last hour: enqueued, completed, canceled",
           f"{summary['hour']['enqueued']}, {summary['hour']['completed']}, {summary['hour']['canceled']}")
    queues = json.loads(world.jobforge("queues", "--json", url=operator).stdout)
    own = [queue for queue in queues if queue["queue"] == "own"]
    check("the operator sees the queue", len(own) == 1, f"queued {own[0]['queued']}, workers {own[0]['workers']}")


def sampled(world, app):
    summary = json.loads(world.jobforge("jobs", "summary", "--json", "--tenant", TENANT, url=app).stdout)
    return summary if summary["hour"] and summary["hour"]["completed"] and summary["hour"]["canceled"] else None


def count_ready(world, app):
    """Due jobs in the story's own queue."""
    return int(world.value(app, "select count(*) from jobforge.jobs where queue = 'own' and status = 'queued' and run_at <= clock_timestamp()",
                           tenant=TENANT))


if __name__ == "__main__":
    tell(explain)
