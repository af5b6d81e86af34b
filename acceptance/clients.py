"""Those who call the API in stories: clients that enqueue all the time, and a worker that knows nothing but HTTP."""

import contextlib
import http.client
import json
import threading
import time
import uuid

from world import wait_until


class Clients:
    """Enqueue all the time, whatever happens, and keep what they were told."""

    def __init__(self, port, key, count=16, enough=200, **job):
        self.port, self.key, self.enough = port, key, enough
        self.job = {"type": "demo.sleep", **job}
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.acknowledged, self.refused, self.broken, self.strange, self.slowest = [], [], [], [], 0.0
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True) for number in range(count)]
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
                self.send(connection, {**self.job, "payload": {"name": name}, **key})
            except (OSError, http.client.HTTPException) as broken:
                # Nobody knows what became of that one: it was not acknowledged.
                with self.lock:
                    self.broken.append(repr(broken))
                with contextlib.suppress(Exception):
                    connection.close()
                connection = None
                time.sleep(0.02)

    def send(self, connection, job):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        began = time.monotonic()
        connection.request("POST", "/api/v1/jobs", json.dumps(job), headers)
        answer = connection.getresponse()
        text, now = answer.read(), time.monotonic()
        with self.lock:
            self.slowest = max(self.slowest, now - began)
            if answer.status == 201:
                self.acknowledged.append((now, json.loads(text)["id"]))
            elif answer.status == 503 and int(answer.headers.get("Retry-After", 0)) > 0:
                self.refused.append(now)
            else:
                self.strange.append((answer.status, text.decode(errors="replace")))
        if answer.status != 201:
            time.sleep(0.02)

    def more(self, kept):
        """Waits until enough more of them have been told so."""
        enough = len(kept) + self.enough
        wait_until(f"{self.enough} more answers", lambda: len(kept) >= enough or self.strange, every=0.01)

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()


class Agent:
    """Claims with long polls and completes, until it is told to end. What is refused with 503 it asks again."""

    def __init__(self, api, key, name, queue, kind="demo.echo"):
        self.api, self.key, self.lanes = api, key, {"worker_id": name, "queues": [queue], "types": [kind]}
        self.done, self.refused, self.strange, self.ending = [], 0, [], threading.Event()
        self.ask("/worker/register", {**self.lanes, "host": "story", "version": "1"})
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ending.is_set():
            lease, before = str(uuid.uuid4()), self.refused
            claim = self.ask("/worker/jobs/claim", {**self.lanes, "wait_seconds": 5, "new_lease_id": lease}, (200, 409))
            if self.refused > before:
                # One that was refused may have been given jobs: they go back, and are claimed again.
                self.ask("/worker/jobs/release", {"lease_id": lease}, (200, 409))
                continue
            for job in (claim or {}).get("jobs", []):
                named = {name: job[name] for name in ("lease_id", "tenant_id", "fence")}
                if self.ask(f"/worker/jobs/{job['id']}/complete", named):
                    self.done.append((time.monotonic(), job))

    def ask(self, path, body, expected=(200,)):
        """The answer, as soon as there is one other than 503."""
        while not self.ending.is_set():
            try:
                status, headers, answer = self.api.call(self.key, "POST", path, body)
            except OSError as broken:
                status, headers, answer = 0, {}, str(broken)
            if status in expected:
                return answer
            if status != 503 or int(headers.get("Retry-After", 0)) < 1:
                self.strange.append((path, status, answer))
                time.sleep(0.1)
                return None
            self.refused += 1
            time.sleep(0.1)
        return None

    def end(self):
        self.ending.set()
        self.thread.join()


def until_success(world, superuser, clients):
    """Seconds from the first write of another client to the first acknowledgement."""
    write = "create temporary table probe ()"
    wait_until("Postgres takes writes", lambda: world.psql(superuser, write)[1] is None, every=0.01)
    writable = time.monotonic()
    success = wait_until("the server takes jobs", lambda: [at for at, _ in clients.acknowledged if at > writable][:1], every=0.01)
    return success[0] - writable
