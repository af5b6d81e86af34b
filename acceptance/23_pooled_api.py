"""The API behind PgBouncer 1.18 in transaction mode with two connections: two tenants with errors in between, and a failover.

Whatever a transaction leaves behind the next one would meet, another tenant's among them. What must be heard goes by the
direct URL, which names both servers; the pooler is pointed to the new primary.
"""

import http.client
import json
import threading
import time

from clients import Agent, Clients, until_success
from servers import Api, Pgbouncer, Postgres
from world import APP, OPERATOR, TENANT, WORKER, Failed, check, figure, tell, wait_until

OTHER = "d0000000-0000-4000-8000-000000000002"
ROUNDS, PAIRS, LONE = 150, 3, 5


class Caller:
    """One client of a tenant: in each round all that it may do, and what it may not in between."""

    def __init__(self, api, keys, tenant):
        self.api, self.tenant, self.other = api, tenant, None
        self.admin, self.producer = keys[tenant]
        # By its queue a tenant's job is known in a list.
        self.job = {"type": "demo.echo", "queue": f"of.{tenant[-4:]}", "payload": {"of": tenant}}
        self.requests, self.foreign, self.odd, self.last = 0, 0, [], None

    def run(self):
        for number in range(ROUNDS):
            made = self.ask(self.producer, "POST", "/jobs", self.job, 201)
            self.last = made and made["id"]
            page = self.ask(self.admin, "GET", "/jobs?limit=50", None, 200)
            self.foreign += sum(one["queue"] != self.job["queue"] for one in (page or {}).get("jobs", []))
            told = self.ask(self.admin, "GET", f"/jobs/{self.last}", None, 200)
            self.foreign += (told or {}).get("payload") != self.job["payload"]
            for method, path, body, status in self.blunders(number):
                self.ask(self.admin, method, path, body, status)
            self.break_off(number)
            self.ask(self.admin, "POST", f"/jobs/{self.last}/cancel", {}, 200)

    def blunders(self, number):
        """What goes wrong, by turns; each leaves a transaction that failed half-way."""
        theirs = self.other.last if self.other.last else "00000000-0000-7000-8000-000000000000"
        yield ("POST", "/jobs", {"type": "no.such.type"}, 422)
        yield ("GET", f"/jobs/{theirs}", None, 404)
        yield ("POST", f"/jobs/{theirs}/cancel", {}, 404)
        yield ("POST", "/jobs", {"type": "demo.echo", "priority": 4711}, 400)
        yield ("POST", "/jobs", {"type": "demo.echo", "payload": {"nul": "\0"}}, (400, 422))
        if number % 5 == 0:
            yield ("POST", "/jobs", [{"type": "no.such.type"}, self.job], (200, 201, 207))

    def break_off(self, number):
        """A caller that goes away before its answer, in the middle of a call if it can be."""
        connection = http.client.HTTPConnection("127.0.0.1", self.api.port, timeout=30)
        headers = {"Authorization": f"Bearer {self.admin}", "Content-Type": "application/json"}
        path, body = (("/api/v1/jobs", json.dumps(self.job)), ("/api/v1/jobs?limit=200", None))[number % 2]
        connection.request("POST" if body else "GET", path, body, headers)
        time.sleep(0.002 * (number % 4))
        connection.close()

    def ask(self, key, method, path, body, expected):
        status, _, answer = self.api.call(key, method, path, body)
        self.requests += 1
        if status not in (expected if isinstance(expected, tuple) else (expected,)):
            self.odd.append((method, path, status, answer))
        return answer if status < 300 else None


def pooled_api(world):
    one = Postgres(world, "one")
    one.start()
    one.prepare("demo.sleep", "demo.echo")
    world.sql(one.url(OPERATOR), f"select jobforge.upsert_tenant('{OTHER}', 'other')")
    two = Postgres(world, "two", copy_of=one)
    two.start()
    one.commit_with_standby()
    bouncer = Pgbouncer(world, one.url, (APP, WORKER, OPERATOR), pool=2)
    direct = f"postgres://{WORKER}:{Postgres.PASSWORD}@127.0.0.1:{one.port},127.0.0.1:{two.port}/jobforge"
    api = Api(world, "api", bouncer.url, JOBFORGE_DIRECT_URL=direct)
    make = lambda role, tenant: world.answer("keys", "create", role, "--tenant", tenant, url=one.url(OPERATOR))["key"]
    keys = {tenant: (make("tenant_admin", tenant), make("producer", tenant)) for tenant in (TENANT, OTHER)}

    tenants(world, api, keys)
    agents = {tenant: Agent(api, make("worker", tenant), f"of {tenant}", "remote") for tenant in keys}
    work(api, keys, agents)
    statements(world, one)

    pid, clients = api.process.pid, Clients(api.port, keys[TENANT][1], queue="parked")
    clients.more(clients.acknowledged)
    one.kill()
    clients.more(clients.refused)
    two.promote()
    bouncer.point_to(two.port)
    wait = until_success(world, two.superuser("jobforge"), clients)
    check("failover behind the pooler: seconds from writable to success", wait < 5, f"{wait:.1f}")
    clients.more(clients.acknowledged)
    work(api, keys, agents)
    clients.end()
    for agent in agents.values():
        agent.end()
    check("the server is the process it was", api.process.poll() is None and api.process.pid == pid, pid)
    figure("acknowledged; refused with 503; broken off", f"{len(clients.acknowledged)}; {len(clients.refused)}; {len(clients.broken)}")
    strange = clients.strange + [one for agent in agents.values() for one in agent.strange]
    check("answers of any other kind", not strange, strange[:3] or 0)
    there = {row[0] for row in world.sql(two.url(APP), "select id from jobforge.jobs", tenant=TENANT)}
    lost = {job for _, job in clients.acknowledged} - there
    check("acknowledged jobs that are lost", not lost, len(lost))
    statements(world, two)


def tenants(world, api, keys):
    """Callers of both tenants at the same time; more of them than there are connections."""
    callers = [Caller(api, keys, tenant) for _ in range(PAIRS) for tenant in keys]
    for number, caller in enumerate(callers):
        caller.other = callers[number ^ 1]
    began = time.monotonic()
    threads = [threading.Thread(target=caller.run) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    requests, took = sum(one.requests for one in callers), time.monotonic() - began
    figure("requests of two tenants over two connections, seconds", f"{requests}, {took:.1f}")
    odd = [one for caller in callers for one in caller.odd]
    check("answers other than those they should get", not odd, odd[:3] or 0)
    check("foreign rows seen", sum(one.foreign for one in callers) == 0, 0)


def work(api, keys, agents):
    """Lone jobs for workers that wait: each is given its own tenant's, soon."""
    waits = []
    for _ in range(LONE):
        for tenant, agent in agents.items():
            before, at = len(agent.done), time.monotonic()
            job = {"type": "demo.echo", "queue": "remote", "payload": {"of": tenant}}
            status, _, made = api.call(keys[tenant][1], "POST", "/jobs", job)
            if status != 201:
                raise Failed(f"a job for a worker: {status} {made}")
            wait_until("the worker did it", lambda: len(agent.done) > before, every=0.01)
            waits.append(agent.done[-1][0] - at)
    foreign = [job for tenant, agent in agents.items() for _, job in agent.done if job["payload"]["of"] != tenant]
    check("jobs of another tenant given to a worker", not foreign, len(foreign))
    check("seconds of lone jobs for long polls, the slowest under 5", max(waits) < 5, f"{max(waits):.2f}")


def statements(world, postgres):
    """What Postgres says of statements and settings that somebody else left."""
    log = (postgres.data / "server.log").read_text(errors="replace")
    left = [line for line in log.splitlines() if "prepared statement" in line or "current transaction is aborted" in line]
    check("statements that met another session's leavings", not left, left[:3] or 0)


if __name__ == "__main__":
    tell(pooled_api)
