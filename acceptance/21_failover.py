"""The primary is killed and its standby promoted; then the two change places while both answer: nothing acknowledged is lost.

Everybody's URL names both servers. The primary commits with its standby, so what was acknowledged is there whichever of them
lives. Enqueues, a native worker, one over HTTP and a scheduler go on all the time, and none of them is restarted.
"""

import time

from clients import Agent, Clients, until_success
from servers import Api, Postgres
from world import APP, JOBFORGE, OPERATOR, TENANT, WORKER, check, figure, tell, wait_until

# What a request may take: ten seconds for its call, five for a connection to make it on.
LIMIT, JOBS = 15, 40
LOGINS = "('" + "', '".join((APP, WORKER, OPERATOR)) + "')"


class Site:
    """Two servers, and everybody who works on them."""

    def __init__(self, world):
        self.world, self.primary = world, Postgres(world, "one")
        self.primary.start()
        self.primary.prepare("demo.sleep", "demo.echo")
        self.standby = Postgres(world, "two", copy_of=self.primary)
        self.standby.start()
        self.primary.commit_with_standby()
        ports = (self.primary.port, self.standby.port)
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.url = lambda login: f"postgres://{login}:{Postgres.PASSWORD}@{hosts}/jobforge"
        self.api = Api(world, "api", self.url)
        self.key = self.made("producer")
        worker = world.work("worker", self.url(WORKER), "--queues", "native", "--slots", "4")
        scheduler = world.spawn("scheduler", JOBFORGE, "schedule", JOBFORGE_DATABASE_URL=self.url(OPERATOR))
        self.processes = [self.api.process, worker, scheduler]
        self.clients = Clients(self.api.port, self.key, queue="parked")
        self.agent = Agent(self.api, self.made("worker"), "story", "remote")
        self.enqueued, self.waits = 0, []

    def made(self, role):
        return self.world.answer("keys", "create", role, "--tenant", TENANT, url=self.url(OPERATOR))["key"]

    def enqueue_work(self):
        """Work for both kinds of workers, some of which runs when the primary goes."""
        native = [{"type": "demo.sleep", "queue": "native", "payload": {"ms": 200}}] * JOBS
        remote = [{"type": "demo.echo", "queue": "remote"}] * JOBS
        status, _, answer = self.api.call(self.key, "POST", "/jobs", native + remote)
        check("jobs for the workers are taken in", status in (200, 201, 207), answer.get("enqueued", status))
        self.enqueued += JOBS
        wait_until("the workers are at it", lambda: self.over("native") > self.enqueued - JOBS, every=0.02)

    def over(self, queue):
        ask = f"select count(*) from jobforge.job_history where queue = '{queue}' and status = 'succeeded'"
        return int(self.world.value(self.url(APP), ask, tenant=TENANT))

    def change_places(self, what, lost):
        """Lets the primary be lost, promotes the standby, and waits until everybody works on it."""
        self.clients.more(self.clients.acknowledged)
        self.enqueue_work()
        lost()
        self.clients.more(self.clients.refused)
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self.waits.append(until_success(self.world, self.primary.superuser("jobforge"), self.clients))
        check(f"{what}: seconds from writable to the first success", self.waits[-1] < 5, f"{self.waits[-1]:.1f}")
        at = time.monotonic()
        for queue in ("native", "remote"):
            wait_until(f"the jobs of {queue} are done", lambda queue=queue: self.over(queue) == self.enqueued)
        check(f"{what}: both workers end their jobs, seconds", True, f"{time.monotonic() - at:.1f}")
        leads = "select count(*) from jobforge.leader where expires_at > clock_timestamp()"
        superuser = self.primary.superuser("jobforge")
        wait_until("a scheduler leads", lambda: self.world.value(superuser, leads) == "1")
        ended = [process.args[1] for process in self.processes if process.poll() is not None]
        check(f"{what}: everybody is the process it was", not ended, ended)


def failover(world):
    site = Site(world)
    site.change_places("killed", lambda: site.primary.kill())

    # On its old address, first in everybody's URL, it answers again and takes no writes.
    site.standby.follow(site.primary)
    site.standby.start()
    site.primary.commit_with_standby()
    site.clients.more(site.clients.acknowledged)
    check("the old primary is back as a standby: nobody stays with it", sessions(world, site.standby, "true"))

    site.change_places("demoted", lambda: site.primary.demote())
    check("the demoted one still answers: no listener stays with it", sessions(world, site.standby, "query ilike 'listen %'"))
    check("    and none of the server's own connections", sessions(world, site.standby, f"usename = '{APP}'"))

    site.agent.end()
    site.clients.end()
    told(world, site)


def sessions(world, postgres, which):
    """Whether nobody of ours is connected there any more."""
    ask = f"select count(*) from pg_stat_activity where usename in {LOGINS} and {which}"
    superuser = postgres.superuser("postgres")
    return wait_until("nobody is there any more", lambda: world.value(superuser, ask) == "0", seconds=15)


def told(world, site):
    clients = site.clients
    figure("acknowledged; refused with 503 and Retry-After", f"{len(clients.acknowledged)}; {len(clients.refused)}")
    check("answers of any other kind, connections broken off", not clients.strange and not clients.broken,
          clients.strange[:3] or clients.broken[:3] or 0)
    check("answers of any other kind to the worker over HTTP", not site.agent.strange, site.agent.strange[:3] or 0)
    check(f"seconds of the slowest request, at most {LIMIT}", clients.slowest < LIMIT, f"{clients.slowest:.1f}")
    there = {row[0] for row in world.sql(site.url(APP), "select id from jobforge.jobs", tenant=TENANT)}
    lost = {job for _, job in clients.acknowledged} - there
    check("acknowledged jobs that are lost", not lost, len(lost))
    deaths = world.value(site.url(APP), "select sum(deaths + failures) from jobforge.job_history", tenant=TENANT)
    check("deaths and failures of the workers' jobs", deaths == "0", deaths)
    warnings = [line for line in world.log("api").splitlines() if '"WARN"' in line]
    check("warnings of the server, at most four for each outage", len(warnings) <= 8, len(warnings))


if __name__ == "__main__":
    tell(failover)
