"""Postgres crashes and stays away for twice the lease: nobody's death, and everything goes on by itself.

The server is the story's own, so that it can be stopped; everything on it is made as an operator would make it.
"""

import time

from servers import Postgres
from world import APP, JOBFORGE, OPERATOR, TENANT, WORKER, check, end, figure, tell, wait_until

LEASE, JOBS, WORKERS, SLOTS = 5, 300, 4, 10
# Every tenth job is longer than a lease: its handler cannot outlast the outage.
ENQUEUE = f"""select count(*) from jobforge.enqueue_jobs('{TENANT}',
    array(select 'demo.sleep' from generate_series(1, {JOBS})),
    array(select jsonb_build_object('ms', case when n % 10 = 0 then 8000 else 1000 end) from generate_series(1, {JOBS}) n))"""
DONE = "select count(*) from jobforge.job_history where status = 'succeeded'"


def outage(world):
    server = Postgres(world)
    server.start()
    server.prepare("demo.sleep")
    app, lease = server.url(APP), str(LEASE)
    scheduler = world.spawn("scheduler", JOBFORGE, "schedule", JOBFORGE_DATABASE_URL=server.url(OPERATOR))
    world.sql(app, ENQUEUE, tenant=TENANT)
    # Several, because they come back one after the other: the first one's claims must not harm the last one.
    workers = [world.work(f"worker-{number}", server.url(WORKER), "--slots", str(SLOTS), JOBFORGE_WORKER__LEASE_SECONDS=lease)
               for number in range(1, WORKERS + 1)]
    wait_until("a third of the jobs is done", lambda: int(world.value(app, DONE, tenant=TENANT)) >= JOBS // 3)
    running = world.value(app, "select count(*) from jobforge.jobs where status = 'running'", tenant=TENANT)

    server.crash()
    # The outage itself is what is waited for here; nothing is hoped for meanwhile.
    time.sleep(2 * LEASE)
    figure("lease, outage in seconds; jobs held when it began", f"{LEASE}, {2 * LEASE}; {running}")
    server.start()
    up_at = time.time()

    wait_until("all jobs have succeeded", lambda: int(world.value(app, DONE, tenant=TENANT)) == JOBS, seconds=120)
    check("jobs succeeded", True, JOBS)
    ended = [process.pid for process in (scheduler, *workers) if process.poll() is not None]
    check(f"of {WORKERS} workers and the scheduler restarted or ended", not ended, len(ended))
    told(world, app, up_at)
    for process in (*workers, scheduler):
        end(process)
    first_come(world, server)


def told(world, app, up_at):
    """What the history says; its clock is this machine's."""
    row = world.sql(app, f"""with up as (select to_timestamp({up_at}) as at)
        select coalesce(sum(deaths), 0), coalesce(sum(failures), 0), count(*) filter (where fence > 1),
          count(*) - count(distinct id), extract(epoch from min(finished_at) filter (where finished_at > up.at) - up.at),
          extract(epoch from min(started_at) filter (where started_at > up.at) - up.at)
        from jobforge.job_history, up group by up.at""", tenant=TENANT)[0]
    check("deaths of all jobs together", row[0] == "0", row[0])
    check("failures of all jobs together", row[1] == "0", row[1])
    figure("jobs that were given back and ran again", row[2])
    check("jobs that are in the history twice", row[3] == "0", row[3])
    check("seconds from server up to first completion, under 15", float(row[4]) < 15, f"{float(row[4]):.1f}")
    figure("seconds from server up to first new claim", f"{float(row[5]):.1f}")


def first_come(world, server):
    """The race that comes out differently each time, played by hand: one worker is back and claims new work
    before another one, whose lease ran out during the outage, gets its beat through."""
    app, worker, operator = server.url(APP), server.url(WORKER), server.url(OPERATOR)
    world.sql(app, *[f"select jobforge.enqueue_job('{TENANT}', 'demo.sleep')"] * 2, tenant=TENANT)
    lead = "select term from jobforge.lead('story')"
    world.sql(operator, lead)
    late = claim(world, worker, "late")
    server.crash()
    time.sleep(LEASE + 1)
    server.start()
    claim(world, worker, "early")
    _, code, reason = world.psql(worker, f"select jobforge.heartbeat('{late}')")
    check("the late one's beat is answered", code is None, f"{code} {reason}" if code else "yes")
    deaths = world.value(operator, f"select deaths from jobforge.reap(({lead}))")
    check("deaths that the reaper sees", deaths == "0", deaths)


def claim(world, worker, name):
    lanes = "array['default'], array['demo.sleep']"
    return world.sql(worker, f"select jobforge.register_worker('{name}', 'story', 1, '', {lanes})",
                     f"select lease_id from jobforge.claim_jobs('{name}', {lanes}, p_lease_seconds => {LEASE})")[1][0]


if __name__ == "__main__":
    tell(outage)
