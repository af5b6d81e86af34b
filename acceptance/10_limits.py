"""Limits under eight workers, counted by the handlers: three at once and never four, 50 a second, changes at once."""

from world import APP, OPERATOR, TENANT, WORKER, check, figure, tell, wait_until

QUEUE, KIND, WORKERS, SLOTS = "story", "story.note", 8, 4


def limits(world):
    program = world.example("jobforge-worker", "noting")
    world.dev("--no-demo")
    operate(world, f"upsert_definition('{KIND}', p_queue => '{QUEUE}')")
    workers = [start(world, program, f"worker{n}") for n in range(WORKERS)]
    at_once(world)
    changed(world)
    rate(world)
    check("no worker was restarted", all(worker.poll() is None for worker in workers))


def start(world, program, name):
    worker = world.spawn(name, program, SLOTS, world.dir / "notes", JOBFORGE_DATABASE_URL=world.url(WORKER))
    world.wait_ready(worker, lambda: "the worker is ready" in world.log(name), name)
    return worker


def enqueue(world, milliseconds, count):
    return [row[0] for row in world.sql(world.url(APP), f"""select id from jobforge.enqueue_jobs('{TENANT}',
        array_fill('{KIND}'::text, array[{count}]),
        array_fill('{{"ms": {milliseconds}}}'::jsonb, array[{count}]))""", tenant=TENANT)]


def operate(world, call):
    """What an operator calls; the database's time before it, and once it holds."""
    now = "select extract(epoch from clock_timestamp())"
    told = world.sql(world.url(OPERATOR), now, f"select jobforge.{call}", now)
    return float(told[0][0]), float(told[-1][0])


def left(world):
    return int(world.value(world.superuser(), f"select count(*) from jobforge.jobs where queue = '{QUEUE}'"))


def done(world, seconds=120):
    wait_until("all jobs are done", lambda: left(world) == 0, seconds=seconds)


class Start:
    """A handler's own note of its start, and who ran then, itself among them."""

    def __init__(self, job, at, running):
        self.job, self.at, self.running = job, at, running


def starts(world, jobs):
    """The starts of these jobs in the order of the notes. A handler notes its start after its claim and its end before its
    report: whoever is between the two is running."""
    wanted, running, found = set(jobs), set(), []
    for line in (world.dir / "notes").read_text().splitlines():
        what, job, micros = line.split()
        if what == "+":
            running.add(job)
            if job in wanted:
                found.append(Start(job, int(micros) / 1e6, frozenset(running)))
        else:
            running.remove(job)
    return found


def at_once(world):
    operate(world, f"upsert_tenant('{TENANT}', p_max_in_flight => 3)")
    jobs = enqueue(world, 40, 200)
    done(world)
    seen = [len(start.running) for start in starts(world, jobs)]
    check("jobs that ran, each once", len(seen) == len(jobs), len(seen))
    figure("starts that saw 1, 2, 3 running", ", ".join(str(seen.count(n)) for n in (1, 2, 3)))
    check(f"the most ever running under a limit of 3, {WORKERS} workers", max(seen) == 3, max(seen))


def changed(world):
    """Each change while all of it waits: whatever is claimed after it finds no more running than it says."""
    operate(world, f"upsert_tenant('{TENANT}', p_max_in_flight => 5)")
    jobs = enqueue(world, 100, 1500)
    changes = []
    for most in (6, 2, 4, 1, 3):
        changes.append((*operate(world, f"upsert_tenant('{TENANT}', p_max_in_flight => {most})"), most))
        begun = len(starts(world, jobs))
        wait_until("thirty more have started", lambda: len(starts(world, jobs)) >= begun + 30, seconds=60)
    ended, freed = operate(world, f"upsert_tenant('{TENANT}', p_clear => '{{max_in_flight}}')")
    done(world)
    claimed = {job: float(at) for job, at in world.sql(world.superuser(), f"""select id, extract(epoch from started_at)
        from jobforge.job_history where queue = '{QUEUE}'""")}
    ends = [before for before, _, _ in changes[1:]] + [ended]
    for (_, since, most), until in zip(changes, ends):
        # A handler may come to its note when the next limit holds already: then those count who were claimed before that.
        seen = [sum(claimed[job] < until for job in start.running)
                for start in starts(world, jobs) if since < claimed[start.job] < until]
        check(f"the most running after the limit became {most}", max(seen) == most, f"{max(seen)} in {len(seen)} starts")
    seen = [len(start.running) for start in starts(world, jobs) if claimed[start.job] > freed]
    check("without it more run", max(seen) > 6, max(seen))


def rate(world):
    # With a burst a machine that stutters for 0.4 s loses nothing.
    operate(world, f"upsert_definition('{KIND}', p_rate_per_second => 50, p_rate_burst => 20)")
    jobs = enqueue(world, 0, 1300)
    # Behind the burst that the first claims find.
    first = wait_until("the first starts", lambda: starts(world, jobs))[0].at + 1
    wait_until("more than 20 s of starts", lambda: starts(world, jobs)[-1].at > first + 20, seconds=60, every=1)
    seen = sum(first <= start.at < first + 20 for start in starts(world, jobs))
    check("starts in 20 s at a rate of 50 a second", 980 <= seen <= 1020, seen)
    operate(world, f"upsert_definition('{KIND}', p_clear => '{{rate}}')")
    wait_until("without a rate the rest is done at once", lambda: left(world) == 0, seconds=10)


if __name__ == "__main__":
    tell(limits)
