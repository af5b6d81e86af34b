"""From an empty directory to finished jobs in less than a minute, and back to nothing with Ctrl-C.

Also: what is stopped comes back with its data.
"""

import os
import re
import signal
import time

from world import APP, TENANT, Failed, alive, check, children, figure, tell, wait_until

COUNT = "select (select count(*) from jobforge.jobs) + (select count(*) from jobforge.job_history)"
SUCCEEDED = "select count(*) from jobforge.job_history where status = 'succeeded'"


def first_run(world):
    began = time.monotonic()
    dev = world.dev()
    figure("seconds until dev.json", f"{time.monotonic() - began:.1f}")
    app = world.url(APP)
    wait_until("ten demo jobs have succeeded", lambda: int(world.value(app, SUCCEEDED, tenant=TENANT)) >= 10)
    took = time.monotonic() - began
    check("seconds until ten demo jobs have succeeded, under 60", took < 60, f"{took:.1f}")

    lines = wait_until("the summary moves", lambda: moving(world.log("dev")), seconds=30)
    figure("the summary, first and last", lines[0])
    figure("", lines[-1])

    jobs = int(world.value(app, COUNT, tenant=TENANT))
    stop(world, dev, "first stop")

    again = world.dev(name="dev-again")
    kept = int(world.value(app, COUNT, tenant=TENANT))
    check("jobs before the stop and after the second start", kept >= jobs, f"{jobs}, {kept}")
    stop(world, again, "second stop")


def moving(log):
    """The summary's lines, once they show that the number of finished jobs grows."""
    lines = [line for line in log.splitlines() if re.search(r"queued \d+.* succeeded \d+", line)]
    done = [int(re.search(r"succeeded (\d+)", line)[1]) for line in lines]
    return lines if len(done) > 1 and done[-1] > done[0] else None


def stop(world, dev, name):
    family = [dev.pid, *children(dev.pid)]
    if len(family) < 5:
        raise Failed(f"only {len(family)} processes found: this story looks for Postgres in the wrong place")
    began = time.monotonic()
    # To the whole group, as a terminal does it: Postgres must not take the Ctrl-C for itself.
    os.killpg(dev.pid, signal.SIGINT)
    code = dev.wait(timeout=60)
    took = time.monotonic() - began
    check(f"{name}: exit code of Ctrl-C", code == 0, code)
    check(f"{name}: seconds, under 30", took < 30, f"{took:.1f}")
    left = [pid for pid in family if alive(pid)]
    check(f"{name}: left of {len(family)} processes", not left, len(left))
    check(f"{name}: dev.json is withdrawn", not (world.dir / "data/dev.json").exists())


if __name__ == "__main__":
    tell(first_run)
