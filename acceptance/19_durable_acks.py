"""Server and Postgres are killed five times each in the middle of concurrent enqueues: what was acknowledged is there.

While Postgres is away every enqueue is refused with 503 and a time to come again; once it takes writes, so does the server,
which is the process it was.
"""

from clients import Clients, until_success
from servers import Api, Postgres
from world import APP, OPERATOR, TENANT, check, figure, tell

ROUNDS, CLIENTS = 5, 16


def durable_acks(world):
    postgres = Postgres(world)
    postgres.start()
    postgres.prepare("demo.sleep")
    key = world.answer("keys", "create", "producer", "--tenant", TENANT, url=postgres.url(OPERATOR))["key"]
    api = Api(world, "api", postgres.url)
    clients, waits = Clients(api.port, key, CLIENTS), []
    for _ in range(ROUNDS):
        clients.more(clients.acknowledged)
        api.kill()
        api.start()
        clients.more(clients.acknowledged)
        pid = api.process.pid
        postgres.kill()
        clients.more(clients.refused)
        postgres.start()
        waits.append(until_success(world, postgres.superuser("jobforge"), clients))
        check("the server is the process it was", api.process.poll() is None and api.process.pid == pid, pid)
    clients.more(clients.acknowledged)
    clients.end()

    figure("kills of the server and of Postgres, clients", f"{ROUNDS} each, {CLIENTS}")
    figure("acknowledged; refused with 503; broken off", f"{len(clients.acknowledged)}; {len(clients.refused)}; {len(clients.broken)}")
    check("answers of any other kind", not clients.strange, clients.strange[:3] or 0)
    check("seconds from writable to the first success, each under 5", max(waits) < 5, ", ".join(f"{one:.1f}" for one in waits))
    there = {row[0] for row in world.sql(postgres.url(APP), "select id from jobforge.jobs", tenant=TENANT)}
    lost = {job for _, job in clients.acknowledged} - there
    check("acknowledged jobs that are lost", not lost, len(lost))
    check("jobs acknowledged twice", len(clients.acknowledged) == len({job for _, job in clients.acknowledged}))
    figure("jobs that are there and were not acknowledged", len(there) - len(clients.acknowledged))


if __name__ == "__main__":
    tell(durable_acks)
