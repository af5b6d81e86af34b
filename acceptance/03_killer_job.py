"""One job that aborts its worker, among 1,000 innocents: it ends dead, and they all succeed.

Two workers, restarted whenever they die, on leases of two seconds to keep the story short.
"""

from world import APP, OPERATOR, TENANT, WORKER, check, figure, tell, wait_until

INNOCENTS, SLOTS, LEASE = 1000, 8, 2
# The killer stands behind the first 200 innocents.
ENQUEUE = f"""select count(*) from jobforge.enqueue_jobs('{TENANT}',
    array(select case when n = 200 then 'story.killer' else 'story.innocent' end from generate_series(0, {INNOCENTS}) n),
    array(select '{{"ms": 200}}'::jsonb from generate_series(0, {INNOCENTS})))"""
STATE = "select status, deaths from jobforge.jobs where type = 'story.killer'"


def killer_job(world):
    program = world.example("jobforge-worker", "aborting")
    world.dev("--no-demo")
    app = world.url(APP)
    world.sql(world.url(OPERATOR), *(
        f"select jobforge.upsert_definition('story.{kind}', p_queue => 'story')" for kind in ("innocent", "killer")))
    world.sql(app, ENQUEUE, tenant=TENANT)

    fleet = Fleet(world, program, world.url(WORKER))

    def over():
        fleet.revive()
        left = world.value(app, "select count(*) from jobforge.jobs where type = 'story.innocent'", tenant=TENANT)
        killer = world.sql(app, STATE, tenant=TENANT)[-1]
        return killer if left == "0" and killer[0] not in ("queued", "running") else None

    status, deaths = wait_until("the killer is convicted and the innocents are done", over, seconds=180)
    check("the killer: status, deaths", (status, deaths) == ("dead", "5"), f"{status}, {deaths}")
    check("workers that died, as many as the killer's deaths", fleet.deaths == 5, fleet.deaths)
    innocents(world, app)


class Fleet:
    """Two workers and whoever watches over them."""

    def __init__(self, world, program, url):
        self.world, self.program, self.url, self.deaths = world, program, url, 0
        self.workers = [self.start(), self.start()]

    def start(self):
        return self.world.spawn("workers", self.program, LEASE, SLOTS, JOBFORGE_DATABASE_URL=self.url)

    def revive(self):
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.deaths += 1
                self.workers[place] = self.start()


def innocents(world, app):
    rows = world.sql(app, """select status, deaths, count(*) from jobforge.job_history
        where type = 'story.innocent' group by 1, 2 order by 1, 2""", tenant=TENANT)
    for status, deaths, count in rows:
        figure(f"    innocents {status} with {deaths} deaths", count)
    good = sum(int(count) for status, _, count in rows if status == "succeeded")
    check("innocents that succeeded", good == INNOCENTS, good)
    most = max(int(deaths) for _, deaths, _ in rows)
    # From its second death on the killer runs apart from every other suspect: nobody is near it a third time.
    check("the most deaths of an innocent, at most 2", most <= 2, most)


if __name__ == "__main__":
    tell(killer_job)
