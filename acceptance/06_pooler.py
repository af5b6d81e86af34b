"""Two tenants share one server connection behind PgBouncer, errors in between: no foreign row, no other error.

Transaction mode with a pool of one, so whatever a transaction leaves behind the next tenant would get.
"""

import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from servers import Pgbouncer
from world import APP, OPERATOR, TENANT, WORKER, check, figure, tell, wait_until

OTHER = "d0000000-0000-4000-8000-000000000002"
ROUNDS = 1250
# One round of a tenant: each line is a request of its own, and each begin to its end holds the one connection.
ROUND = """
begin; select set_config('app.tenant_id', '{mine}', true) is null;
select 'made', pg_backend_pid() from jobforge.enqueue_job('{mine}', 'demo.echo', '{{"of": "{mine}"}}', p_queue => 'parked');
select 'seen', count(*) filter (where tenant_id = '{mine}'), count(*) filter (where tenant_id <> '{mine}') from jobforge.jobs;
commit;
select 'unset', count(*), 0 from jobforge.jobs;
"""
# What clients do wrong, by turns: each leaves a transaction that failed half-way, with the tenant set in it.
BLUNDERS = {
    "JF002": "select jobforge.enqueue_job('{mine}', 'no.such.type');",
    "JF009": "select jobforge.enqueue_job('{foreign}', 'demo.echo');",
    "57014": "set local statement_timeout = '1ms'; select pg_sleep(1);",
    "22P02": "select jobforge.enqueue_job('{mine}', 'demo.echo', '{{not json');",
}


def pooler(world):
    world.dev("--no-demo")
    world.sql(world.url(OPERATOR), f"select jobforge.upsert_tenant('{OTHER}', 'other')")
    bouncer = Pgbouncer(world, world.url, (APP, WORKER))
    app, worker = bouncer.url(APP), bouncer.url(WORKER)

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pair:
        told = list(pair.map(lambda who: interleave(world, app, *who), ((TENANT, OTHER), (OTHER, TENANT))))
    took = time.monotonic() - began
    figure("requests of two tenants over one connection, seconds", f"{sum(one.requests for one in told)}, {took:.1f}")
    sessions = set().union(*(one.sessions for one in told))
    check("server connections they shared, a pool of 1", len(sessions) == 1, len(sessions))
    check("rounds in which each of them was on it", {one.made for one in told} == {ROUNDS}, ROUNDS)
    check("foreign rows seen", sum(one.foreign for one in told) == 0, sum(one.foreign for one in told))
    check("rows seen without a tenant", sum(one.unset for one in told) == 0, sum(one.unset for one in told))
    check("each saw its own rows grow to", {one.own for one in told} == {ROUNDS}, ROUNDS)
    for code in BLUNDERS:
        figure(f"    provoked {code}", sum(one.errors.get(code, 0) for one in told))
    provoked = sum(one.provoked for one in told)
    errors = {code: sum(one.errors.get(code, 0) for one in told) for one in told for code in one.errors}
    check("provoked errors; all that came", set(errors) == set(BLUNDERS) and sum(errors.values()) == provoked,
          f"{provoked}; {sum(errors.values())}")
    work_through(world, app, worker)


class Told:
    """What one tenant's client was told."""

    def __init__(self, output, requests, provoked):
        self.requests, self.provoked = requests, provoked
        lines = [line.split("\t") for line in output.splitlines()]
        seen = [line for line in lines if line[0] == "seen"]
        made = [line[1] for line in lines if line[0] == "made"]
        self.made, self.sessions = len(made), set(made)
        self.own = int(seen[-1][1]) if len(seen) == ROUNDS else -1
        self.foreign = sum(int(line[2]) for line in seen)
        self.unset = sum(int(line[1]) for line in lines if line[0] == "unset")
        self.errors = {}
        for code in re.findall(r"(?:ERROR|FATAL):  (\w{5})", output):
            self.errors[code] = self.errors.get(code, 0) + 1


def interleave(world, url, mine, foreign):
    """One psql for all rounds. It sends a statement when the last one is answered: the two take turns."""
    script, provoked, blunders = [], 0, list(BLUNDERS.values())
    for number in range(ROUNDS):
        script.append(ROUND.format(mine=mine))
        if number % 5 == 0:
            blunder = blunders[number // 5 % len(blunders)].format(mine=mine, foreign=foreign)
            script.append(f"begin; set local app.tenant_id = '{mine}';\n{blunder}\nrollback;\n")
            provoked += 1
    text = "".join(script)
    done = subprocess.run(
        [world.psql_program(), "-XqAt", "-F", "\t", "-v", "VERBOSITY=sqlstate", url], input=text, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=world.environment(PGAPPNAME="psql"), timeout=300)
    return Told(done.stdout, text.count(";"), provoked)


def work_through(world, app, worker):
    """A worker whose every connection leads through the pool; notifications do not get through it."""
    process = world.work("worker", worker, "--queues", "pooled", "--slots", "8")
    enqueue = ("enqueue", "demo.echo", "--queue", "pooled", "--tenant", TENANT)
    waits = []
    for _ in range(5):
        world.jobforge(*enqueue, url=app)
        waits.append(finished(world, app, len(waits) + 1))
    check("deaf worker: seconds of five lone jobs, each under 5", max(waits) < 5, ", ".join(f"{one:.1f}" for one in waits))
    figure("the worker noticed that it is deaf", "yes" if "no notifications arrive" in world.log("worker") else "no")
    done = world.jobforge(*enqueue, "--count", "2000", url=app)
    check("2,000 jobs enqueued through the pool", done.returncode == 0, done.stderr)
    figure("seconds until the last of them was done", f"{finished(world, app, 2005):.1f}")
    check("the worker is the process it was", process.poll() is None)
    deaths = world.value(app, "select sum(deaths + failures) from jobforge.job_history", tenant=TENANT)
    check("deaths and failures on the way", deaths == "0", deaths)


def finished(world, app, number):
    """Seconds from the last enqueue to the last completion, once so many jobs have succeeded."""
    query = """select extract(epoch from max(finished_at) - max(created_at)), count(*) from jobforge.job_history
        where queue = 'pooled' and status = 'succeeded'"""
    # In one transaction: a setting of the session would stay in the pool.
    ask = f"begin; set local app.tenant_id = '{TENANT}'; {query}; commit"

    def answer():
        seconds, count = world.sql(app, ask)[-1]
        return float(seconds) if int(count) == number else None
    return wait_until(f"{number} jobs have succeeded", answer)


if __name__ == "__main__":
    tell(pooler)
