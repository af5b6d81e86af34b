"""A worker killed with -9 in the middle of 1,000 jobs: all finish, its jobs start again within 36 s.

The default lease of 30 s. Then whatever the dead worker might still say is said for it, and refused.
"""

import signal
import time

from world import APP, TENANT, WORKER, check, figure, tell, wait_until

JOBS, SLOTS, QUEUE = 1000, 50, "story"
# Every fifth job takes 5 s; the others are over at once.
ENQUEUE = f"""select count(*) from jobforge.enqueue_jobs('{TENANT}',
    array(select 'demo.sleep' from generate_series(1, {JOBS})),
    array(select jsonb_build_object('ms', case when n % 5 = 0 then 5000 else 50 end) from generate_series(1, {JOBS}) n),
    array(select '{QUEUE}' from generate_series(1, {JOBS})))"""
DONE = f"select count(*) from jobforge.job_history where queue = '{QUEUE}' and status = 'succeeded'"


def kill_nine(world):
    # The worker inside `dev` serves another queue; its scheduler is the one that notices the death.
    world.dev("--no-demo")
    app, worker = world.url(APP), world.url(WORKER)
    world.sql(app, ENQUEUE, tenant=TENANT)
    flags = ("--queues", QUEUE, "--slots", str(SLOTS))
    victim = world.work("victim", f"{worker}?application_name=victim", *flags)
    survivor = world.work("survivor", worker, *flags)

    def in_the_middle():
        done = int(world.value(app, DONE, tenant=TENANT))
        return done if done >= JOBS // 4 and stopped_with_both(world, victim) else None

    done = wait_until("the victim is in the middle of its work", in_the_middle)
    victim.send_signal(signal.SIGKILL)
    killed_at = time.time()
    victim.wait()
    held, fates = held_by(world, victim.pid), started_and_not(world, victim.pid)
    figure("jobs done and held by the victim when it was killed", f"{done}, {len(held)}")

    wait_until("all jobs have succeeded", lambda: int(world.value(app, DONE, tenant=TENANT)) == JOBS, seconds=120)
    check("jobs succeeded", int(world.value(app, DONE, tenant=TENANT)) == JOBS, JOBS)
    check("the survivor was never restarted", survivor.poll() is None)
    restarts(world, app, held, fates, killed_at)
    stale_reports(world, worker, held)
    once = world.value(app, f"select count(*) = count(distinct id) from jobforge.job_history where queue = '{QUEUE}'",
                       tenant=TENANT)
    check("every job is in the history once", once == "t")


def stopped_with_both(world, victim):
    """Stops the victim where it holds jobs that may have started and others that cannot have: a moment later it might hold none
    of one kind. Where it does not, or has asked the database for something that is not over, it goes on."""
    if min(started_and_not(world, victim.pid)) == 0:
        return False
    victim.send_signal(signal.SIGSTOP)
    busy = world.value(world.superuser(), "select count(*) from pg_stat_activity where application_name = 'victim' and state <> 'idle'")
    if busy == "0" and min(started_and_not(world, victim.pid)) > 0:
        return True
    victim.send_signal(signal.SIGCONT)
    return False


def started_and_not(world, pid):
    """How many of its jobs lie within the windows of their leases, so that they may have started, and how many behind."""
    within, behind = world.sql(world.superuser(), f"""select coalesce(sum(least(window_size, jobs)), 0),
        coalesce(sum(greatest(jobs - window_size, 0)), 0) from (select l.window_size, count(*) as jobs
        from jobforge.jobs j join jobforge.leases l on l.id = j.lease_id join jobforge.workers w on w.no = l.worker_no
        where w.pid = {pid} and j.status = 'running' group by l.id) as held""")[0]
    return int(within), int(behind)


def held_by(world, pid):
    """What the worker knows of its jobs: lease, job, fence. No login may read leases, so the superuser tells."""
    return world.sql(world.superuser(), f"""select j.lease_id, j.id, j.fence, j.payload->>'ms' from jobforge.jobs j
        join jobforge.workers w on w.no = j.worker_no where w.pid = {pid} and j.status = 'running'""")


def restarts(world, app, held, fates, killed_at):
    """The next attempts of the victim's jobs, by the database's account; its clock is this machine's."""
    ids = ",".join(f"'{job}'" for _, job, _, _ in held)
    lasts = {job: int(ms) / 1000 for _, job, _, ms in held}
    rows = world.sql(app, f"""select id, deaths, fence, extract(epoch from started_at) - {killed_at},
        extract(epoch from finished_at) - {killed_at} from jobforge.job_history where id in ({ids})""", tenant=TENANT)
    died, free = [row for row in rows if row[1] == "1"], [row for row in rows if row[1] == "0"]
    check("jobs of the victim: deaths = 1, back free; some of either", died and free, f"{len(died)}, {len(free)}")
    check("as many as may have started, and the others", (len(died), len(free)) == fates and sum(fates) == len(held), fates)
    check("each was attempted anew", all(int(row[2]) >= 2 for row in rows))
    for kind, jobs in (("counted a death", died), ("went back free", free)):
        figure(f"{len(jobs)} {kind}: a part of their ids, seconds from kill to next attempt", "")
        told = [f"{row[0][9:18]} {float(row[3]):.1f}" for row in sorted(jobs, key=lambda row: float(row[3]))]
        for at in range(0, len(told), 8):
            print("      " + "   ".join(told[at:at + 8]))
    after = sorted(float(row[3]) for row in rows)
    figure("seconds from kill to next attempt: first, median, last", spread(after))
    for low in range(0, 40, 2):
        here = sum(low <= seconds < low + 2 for seconds in after)
        if here:
            figure(f"    attempted anew after {low} to {low + 2} s", here)
    # An attempt starts with its claim; with more long jobs than slots some handlers wait their turn.
    figure("seconds until their handlers ran", spread(sorted(float(row[4]) - lasts[row[0]] for row in rows)))
    check("all attempts started within 36 s", after[-1] <= 36, f"{after[-1]:.1f}")
    others = world.sql(app, f"""select count(*) filter (where deaths > 0), count(*) filter (where fence > 1)
        from jobforge.job_history where queue = '{QUEUE}' and id not in ({ids})""", tenant=TENANT)[0]
    check("jobs of the survivor that count a death", others[0] == "0", others[0])
    figure("jobs of the survivor given back free for a while", others[1])


def spread(values):
    return f"{values[0]:.1f}, {values[len(values) // 2]:.1f}, {values[-1]:.1f}"


def stale_reports(world, worker, held):
    """The dead worker's reports, as they would come after a long pause: with its lease and its fences."""
    lease = held[0][0]
    refused = {}
    for _, job, fence, _ in held[:10]:
        _, code, reason = world.psql(
            worker, f"select jobforge.complete_job('{lease}', '{TENANT}', '{job}', {fence})")
        refused[f"{code} {reason}"] = refused.get(f"{code} {reason}", 0) + 1
    check("ten late completions, one by one", set(refused) == {"JF006 fence_stale"}, refused)
    verdicts = dict(world.sql(worker, f"""select verdict, count(*) from jobforge.complete_jobs('{lease}',
        array(select '{TENANT}'::uuid from generate_series(1, {len(held)})),
        array[{",".join(f"'{job}'" for _, job, _, _ in held)}]::uuid[],
        array[{",".join(fence for _, _, fence, _ in held)}]) group by 1"""))
    check("late completions of all of them in a batch", verdicts == {"stale": str(len(held))}, verdicts)
    _, job, fence, _ = held[0]
    for words in (f"fail_job('{lease}', '{TENANT}', '{job}', {fence}, 'permanent', 'too late')",
                  f"heartbeat('{lease}')"):
        _, code, reason = world.psql(worker, f"select jobforge.{words}")
        check(f"late {words.split('(')[0]}", code == "JF006", f"{code} {reason}")


if __name__ == "__main__":
    tell(kill_nine)
