"""10,000 jobs of mixed kinds, one of two workers killed with -9 every 3 s: all succeed, and no process outlives its worker."""

import signal
import time
from pathlib import Path

from servers import Http
from world import APP, TENANT, WORKER, Failed, check, children, figure, marked, tell, wait_until

QUEUE, SLOTS, LEASE, BATCH = "story", 8, 5, 1000
# Of each 50 jobs so many are of a kind, in this order.
SHARES = {"demo.echo": 40, "story.pause": 4, "connector.http.request": 3, "connector.qr.generate": 3}
JOBS, KILLS, EVERY = 10_000, 6, 3
FLAGS = ("--queues", QUEUE, "--slots", str(SLOTS), "--commands", "commands.toml")


def mixed_kinds(world):
    cookie = f"STORY={world.dir.name}"
    # The program has a child of its own, so that there is a tree to lose.
    (world.dir / "commands.toml").write_text(f"""
[commands."story.pause"]
program = "/bin/sh"
args = ["-c", 'sleep 0.3 & wait; echo "$1"', "pause", "{{payload.n}}"]
env.set = {{ STORY = "{world.dir.name}" }}
""")
    server = Http(seconds=0.2)
    world.dev("--no-demo")
    for kind in SHARES:
        world.answer("definitions", "set", kind)
    for first in range(0, JOBS, BATCH):
        world.sql(world.url(APP), enqueue(first, server.url), tenant=TENANT)
    figure("jobs of each kind", ", ".join(f"{kind} {JOBS * share // 50}" for kind, share in SHARES.items()))

    began = time.monotonic()
    survivor, kills = start(world, "survivor"), Kills(world)
    early = None
    while done(world) < JOBS:
        if early is None and done(world) >= JOBS // 5:
            early = resident(survivor.pid)
        kills.perhaps()
        if time.monotonic() > began + 300:
            raise Failed(f"only {done(world)} of {JOBS} jobs are over after 300 s")
        time.sleep(0.2)
    took, late = time.monotonic() - began, resident(survivor.pid)
    kills.victim.send_signal(signal.SIGTERM)
    survivor.send_signal(signal.SIGTERM)
    for process in (kills.victim, survivor):
        check("a worker that was not killed stops in order", process.wait(timeout=60) == 0)
    deaths = outcome(world, took)
    figure("deaths counted per kill", f"{deaths / kills.count:.1f}")
    check(f"kills, at least {KILLS}", kills.count >= KILLS, kills.count)
    figure("    processes of commands at those moments", kills.seen)
    figure("    seconds until the last of them was gone, at most", f"{kills.slowest:.2f}")
    check("processes of commands left at the end", not marked(cookie), len(marked(cookie)))
    check("resident memory of the survivor, MiB: early, late", late < 1.5 * early, f"{early / 1024:.1f}, {late / 1024:.1f}")
    figure("requests the HTTP server got for its jobs", f"{len(server.requests)} for {JOBS * 3 // 50}")


class Kills:
    """A worker that is killed and replaced, again and again."""

    def __init__(self, world):
        self.world, self.count, self.seen, self.slowest = world, 0, 0, 0.0
        self.replace()

    def replace(self):
        self.victim, self.due = start(self.world, f"victim{self.count}"), time.monotonic() + EVERY

    def perhaps(self):
        if time.monotonic() < self.due:
            return
        # The whole tree under it: supervisors, programs and their children.
        tree = children(self.victim.pid)
        self.victim.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        self.victim.wait()
        wait_until("the killed worker's processes are gone", lambda: not any(map(alive, tree)), seconds=20, every=0.01)
        self.count, self.seen = self.count + 1, self.seen + len(tree)
        self.slowest = max(self.slowest, time.monotonic() - killed)
        self.replace()


def start(world, name):
    return world.work(name, world.url(WORKER), *FLAGS, JOBFORGE_WORKER__LEASE_SECONDS=str(LEASE),
                      JOBFORGE_EGRESS__ALLOW="127.0.0.1")


def enqueue(first, url):
    """One batch; the kinds take turns."""
    bound, cases = 0, []
    payloads = {"story.pause": "jsonb_build_object('n', n)", "connector.qr.generate": "jsonb_build_object('text', 'job ' || n)",
                "connector.http.request": f"jsonb_build_object('url', '{url}/' || n)"}
    for kind, share in SHARES.items():
        bound += share
        cases.append((f"when n % 50 < {bound} then", kind, payloads.get(kind, "jsonb_build_object('n', n)")))
    kinds = " ".join(f"{when} '{kind}'" for when, kind, _ in cases)
    values = " ".join(f"{when} {payload}" for when, _, payload in cases)
    numbers = f"generate_series({first}, {first + BATCH - 1}) n order by n"
    return f"""select count(*) from jobforge.enqueue_jobs('{TENANT}', array(select case {kinds} end from {numbers}),
        array(select case {values} end from {numbers}), array_fill('{QUEUE}'::text, array[{BATCH}]))"""


def done(world):
    return int(world.value(world.url(APP), f"select count(*) from jobforge.job_history where queue = '{QUEUE}'", tenant=TENANT))


def outcome(world, took):
    app = world.url(APP)
    rows = world.sql(app, f"""select type, status, count(*), count(distinct id), sum(deaths), sum(fence - 1), sum(failures)
        from jobforge.job_history where queue = '{QUEUE}' group by 1, 2 order by 1""", tenant=TENANT)
    wanted = {kind: JOBS * share // 50 for kind, share in SHARES.items()}
    check("every job succeeded, once", {row[0]: int(row[2]) for row in rows if row[1] == "succeeded" and row[2] == row[3]} == wanted,
          f"{JOBS} in {took:.0f} s")
    left = world.value(app, f"select count(*) from jobforge.jobs where queue = '{QUEUE}'", tenant=TENANT)
    check("jobs left, failures", left == "0" and all(row[6] == "0" for row in rows), "0, 0")
    for kind, _, _, _, deaths, reruns, _ in rows:
        figure(f"    {kind}: deaths counted, attempts beyond the first", f"{deaths}, {reruns}")
    deaths = sum(int(row[4]) for row in rows)
    check("kills were felt: deaths counted", deaths > 0, deaths)
    # Payloads and results are no columns of the tenant's login.
    wrong = world.value(world.superuser(), f"""select count(*) from jobforge.job_history where queue = '{QUEUE}' and (
        type = 'demo.echo' and result is distinct from payload
        or type = 'connector.qr.generate' and result->>'text' is distinct from payload->>'text'
        or type = 'connector.http.request' and (result->>'status') is distinct from '200')""")
    check("results that are not their payload's", wrong == "0", wrong)
    return deaths


def resident(pid):
    """VmRSS in KiB."""
    line, = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


def alive(pid):
    """A zombie is waited for by whoever got it, and does nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    tell(mixed_kinds)
