"""Server and Postgres are killed five times each in the middle of concurrent enqueues: what was acknowledged is there.

While Postgres is away every enqueue is refused with 503 and a time to come again; once it takes writes, so does the server,
which is the process it was.
"""

import contextlib
import http.client
import json
import threading
import time

from servers import Api, Postgres
from world import APP, OPERATOR, TENANT, check, figure, tell, wait_until

ROUNDS, CLIENTS, ENOUGH = 5, 16, 200


class Clients:
    """Enqueue all the time, whatever happens, and keep what they were told."""

    def __init__(self, port, key):
        self.port, self.key = port, key
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.acknowledged, self.refused, self.broken, self.strange = [], [], 0, []
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, client):
        connection, number = None, 0
        while not self.ending.is_set():
            number += 1
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                # Half of them with keys, which are written another way.
                name = f"{client}-{number}"
                key = {"idempotency_key": name} if number % 2 else {}
                self.send(connection, {"type": "demo.sleep", "payload": {"name": name}, **key})
            except (OSError, http.client.HTTPException):
                # Nobody knows what became of that one: it was not acknowledged.
                with self.lock:
                    self.broken += 1
                with contextlib.suppress(Exception):
                    connection.close()
                connection = None
                time.sleep(0.02)

    def send(self, connection, job):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/jobs", json.dumps(job), headers)
        answer = connection.getresponse()
        text, now = answer.read(), time.monotonic()
        with self.lock:
            if answer.status == 201:
                self.acknowledged.append((now, json.loads(text)["id"]))
            elif answer.status == 503 and int(answer.headers.get("Retry-After", 0)) > 0:
                self.refused.append(now)
            else:
                self.strange.append((answer.status, text.decode(errors="replace")))
        if answer.status != 201:
            time.sleep(0.02)

    def more(self, kept):
        """Waits until so many more have been told so."""
        enough = len(kept) + ENOUGH
        wait_until(f"{ENOUGH} more answers", lambda: len(kept) >= enough or self.strange, every=0.01)

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()


def durable_acks(world):
    postgres = Postgres(world)
    postgres.start()
    postgres.prepare("demo.sleep")
    key = world.answer("keys", "create", "producer", "--tenant", TENANT, url=postgres.url(OPERATOR))["key"]
    api = Api(world, "api", postgres.url)
    clients, waits = Clients(api.port, key), []
    for _ in range(ROUNDS):
        clients.more(clients.acknowledged)
        api.kill()
        api.start()
        clients.more(clients.acknowledged)
        pid = api.process.pid
        postgres.kill()
        clients.more(clients.refused)
        postgres.start()
        waits.append(until_success(world, postgres, clients))
        check("the server is the process it was", api.process.poll() is None and api.process.pid == pid, pid)
    clients.more(clients.acknowledged)
    clients.end()

    figure("kills of the server and of Postgres, clients", f"{ROUNDS} each, {CLIENTS}")
    figure("acknowledged; refused with 503; broken off", f"{len(clients.acknowledged)}; {len(clients.refused)}; {clients.broken}")
    check("answers of any other kind", not clients.strange, clients.strange[:3] or 0)
    check("seconds from writable to the first success, each under 5", max(waits) < 5, ", ".join(f"{one:.1f}" for one in waits))
    there = {row[0] for row in world.sql(postgres.url(APP), "select id from jobforge.jobs", tenant=TENANT)}
    lost = {job for _, job in clients.acknowledged} - there
    check("acknowledged jobs that are lost", not lost, len(lost))
    check("jobs acknowledged twice", len(clients.acknowledged) == len({job for _, job in clients.acknowledged}))
    figure("jobs that are there and were not acknowledged", len(there) - len(clients.acknowledged))


def until_success(world, postgres, clients):
    """Seconds from the first write of another client to the first acknowledgement."""
    write = "create temporary table probe ()"
    wait_until("Postgres takes writes", lambda: world.psql(postgres.superuser("jobforge"), write)[1] is None, every=0.01)
    writable = time.monotonic()
    success = wait_until("the server takes jobs", lambda: [at for at, _ in clients.acknowledged if at > writable][:1], every=0.01)
    return success[0] - writable


if __name__ == "__main__":
    tell(durable_acks)
