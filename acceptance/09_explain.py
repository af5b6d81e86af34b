"""Why does my job not run? Every reason there is: brought about, told by `jobforge jobs explain`, and cleared."""

import json
import os
import re
import signal
import time
from datetime import datetime

from world import APP, OPERATOR, ROOT, TENANT, WORKER, Failed, check, figure, tell, wait_until

QUEUE, LONG = "own", '{"ms": 600000}'


def explain(world):
    dev = world.dev("--no-demo")
    story = Story(world)
    waits(story)
    pauses(story)
    ends(story)
    rates(story)
    job = deaths(story, dev)
    in_flight(story, job)
    nobody_told(story)
    story.is_whole()
    counted(world, story)


class Story:
    """The reasons that were made and cleared, and how; all of it from outside."""

    def __init__(self, world):
        self.world, self.app, self.operator = world, world.url(APP), world.url(OPERATOR)
        self.made, self.cleared = set(), set()

    def run(self, *arguments, url=None):
        done = self.world.jobforge(*arguments, url=url or self.operator)
        if done.returncode != 0:
            raise Failed(f"jobforge {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def enqueue(self, kind="demo.echo", payload="{}", queue=QUEUE, more=()):
        told = self.run("enqueue", kind, "--payload", payload, "--queue", queue, "--tenant", TENANT, "--json", *more, url=self.app)
        return json.loads(told)["id"]

    def work(self, name, queue=QUEUE, slots=4):
        # A short lease: what a worker held when it was killed is taken back soon.
        return self.world.work(name, self.world.url(WORKER), "--queues", queue, "--slots", str(slots),
                               JOBFORGE_WORKER__LEASE_SECONDS="2")

    def told(self, job):
        return json.loads(self.run("jobs", "explain", job, "--json", "--tenant", TENANT, url=self.app))

    def make(self, what, job, reason, seconds=60):
        """Waits until this reason is the decisive one, and gives the row."""
        first = wait_until(f"{what}: {reason}", lambda: next(
            (row for row in self.told(job)[:1] if row["reason"] == reason), None), seconds=seconds)
        check(what, True, f"{reason}: {first['says']}")
        self.made.add(reason)
        return first

    def clear(self, what, job, reason):
        """Waits until it is no reason any more, and tells what is."""
        now = wait_until(f"{what}: no longer {reason}", lambda: next(
            (rows for rows in [self.told(job)] if all(row["reason"] != reason for row in rows)), None))
        check(f"  {what}", True, now[0]["reason"])
        self.cleared.add(reason)

    def is_whole(self):
        """The guide lists the reasons: the story makes and clears each of them, and the function knows no other."""
        guide = (ROOT / "docs/guides/explain.md").read_text()
        cells = [line.split("|")[1] for line in guide.split("| reason |")[1].split("\n\n")[0].splitlines()[2:]]
        listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
        function = (ROOT / "sql/functions/92_explain.sql").read_text()
        # The first column of what is returned: whole words, or what is put behind the kind of a pause or limit.
        firsts = re.findall(r"(?:return query|as \$\$)\s+select ((?:case .*? end|[^,]*?)),", function, re.S)
        known = {name for first in firsts for name in re.findall(r"'(\w+)'(?! then)", first)}
        strange = {name for name in known if not any(reason.endswith(name) for reason in listed)}
        check(f"the function's {len(known)} words for a reason are in the guide", len(known) > 8 and not strange, sorted(strange))
        check(f"all {len(listed)} reasons of the guide were made", self.made == listed, sorted(self.made ^ listed))
        check(f"all {len(listed)} were cleared", self.cleared == listed, sorted(self.cleared ^ listed))


def waits(story):
    job = story.enqueue(more=("--delay", "1h"), queue="nowhere")
    story.make("a job for later", job, "scheduled")
    story.run("jobs", "retry", job, "--tenant", TENANT, url=story.app)
    story.clear("told to run now", job, "scheduled")
    row = story.make("in a queue that nobody serves", job, "no_worker")
    check("  workers that know its type elsewhere", row["detail"]["elsewhere"] >= 1, row["detail"]["elsewhere"])
    story.work("elsewhere", queue="nowhere")
    story.clear("a worker came", job, "no_worker")

    job = story.enqueue(queue="workflow")
    # No call makes jobs that wait for others yet.
    block = f"update jobforge.jobs set status = '{{}}', ready = {{}} where id = '{job}'"
    story.world.sql(story.world.superuser(), block.format("blocked", "false"))
    story.make("a job behind others", job, "blocked")
    story.world.sql(story.world.superuser(), block.format("queued", "true"))
    story.clear("they ended", job, "blocked")


def pauses(story):
    story.first = story.work("first")
    for kind, name in (("queue", QUEUE), ("tenant", TENANT), ("definition", "demo.echo")):
        story.run("pause", kind, name, "--reason", "a test of explain")
        job = story.enqueue()
        row = story.make(f"a paused {kind}", job, f"{kind}_paused")
        check("  why", row["detail"]["reason"] == "a test of explain", row["detail"]["author"])
        story.run("resume", kind, name)
        story.clear("resumed", job, f"{kind}_paused")


def ends(story):
    job = story.enqueue("demo.fail", '{"permanent": true}')
    row = story.make("a job that failed", job, "finished")
    check("  how", row["detail"]["status"] == "failed", row["detail"]["error"])
    story.run("pause", "queue", QUEUE)
    story.run("jobs", "retry", job, "--tenant", TENANT, url=story.app)
    story.clear("retried", job, "finished")
    story.run("resume", "queue", QUEUE)


def rates(story):
    for kind, name in (("tenants", TENANT), ("definitions", "demo.echo")):
        story.run(kind, "set", name, "--rate", "0.01", "--burst", "1")
        jobs = [story.enqueue() for _ in range(2)]
        reason = f"{kind[:-1]}_rate"
        # One of them has the only token.
        job = wait_until("one of two waits", lambda: next(
            (job for job in jobs if story.told(job)[0]["reason"] == reason), None))
        row = story.make(f"one job in 100 s: the {kind[:-1]}'s second", job, reason)
        ahead = datetime.fromisoformat(row["until"].replace("Z", "+00:00")).timestamp() - time.time()
        check("  the next token, in seconds", 0 < ahead <= 100, f"{ahead:.0f}")
        story.run(kind, "set", name, "--clear", "rate")
        story.clear("without the rate", job, reason)


def deaths(story, dev):
    """A job whose workers are killed: lost, waiting again, suspected, alone."""
    job = story.enqueue("demo.sleep", LONG, more=("--concurrency-key", "account-7"))
    row = story.make("a job that runs", job, "running")
    check("  where", row["detail"]["worker_id"] != "", row["detail"]["worker_id"])
    # With the scheduler stopped nobody takes the lease back.
    os.kill(dev.pid, signal.SIGSTOP)
    kill(story.first)
    story.clear("its worker was killed", job, "running")
    story.make("its lease ran out", job, "lost")
    os.kill(dev.pid, signal.SIGCONT)
    story.clear("taken back", job, "lost")
    story.make("it waits for a worker that was heard of a moment ago", job, "waiting_turn")
    second = story.work("second")
    story.clear("one came", job, "waiting_turn")
    story.make("and runs it", job, "running")
    kill(second)
    row = story.make("lost for the second time", job, "solo_pending")
    check("  deaths", row["detail"]["deaths"] == 2, row["detail"]["deaths"])
    story.work("third")
    story.clear("a third came", job, "solo_pending")
    row = story.make("and runs it alone", job, "running")
    check("  on a lease of its own", row["detail"]["solo"])
    return job


def kill(worker):
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def in_flight(story, holder):
    """What the running job holds, by its tenant, its type and its key."""
    sleeps = ("demo.sleep", '{"ms": 1}')
    for kind, name in (("tenants", TENANT), ("definitions", "demo.sleep")):
        reason = f"{kind[:-1]}_in_flight"
        story.run(kind, "set", name, "--max-in-flight", "1")
        job = story.enqueue(*sleeps)
        row = story.make(f"one at a time of the {kind[:-1]}", job, reason)
        check("  held by", row["detail"]["job_ids"] == [holder], row["detail"]["job_ids"])
        story.run(kind, "set", name, "--clear", "max_in_flight")
        story.clear("without the limit", job, reason)
    job = story.enqueue(more=("--concurrency-key", "account-7"))
    row = story.make("one at a time of the key", job, "concurrency_key")
    check("  held by", row["detail"]["job_ids"] == [holder], row["detail"]["job_ids"])
    story.run("jobs", "cancel", holder, "--tenant", TENANT, url=story.app)
    story.clear("its holder was canceled", job, "concurrency_key")
    story.make("and it ran", job, "finished")
    story.make("the holder too", holder, "finished")


def nobody_told(story):
    done = story.world.jobforge("jobs", "explain", "00000000-0000-4000-8000-00000000dead", "--tenant", TENANT, url=story.app)
    check("an unknown job", done.returncode == 1 and "JF007" in done.stderr, f"exit code {done.returncode}, JF007")


def counted(world, story):
    """What came and went is counted by the scheduler's samples, every ten seconds."""
    def sampled():
        hour = json.loads(story.run("jobs", "summary", "--json", "--tenant", TENANT, url=story.app))["hour"]
        return hour if hour and hour["completed"] and hour["canceled"] else None

    hour = wait_until("the samples count the jobs", sampled, seconds=40, every=1)
    figure("last hour: enqueued, completed, canceled", f"{hour['enqueued']}, {hour['completed']}, {hour['canceled']}")
    queues = json.loads(story.run("queues", "--json"))
    waiting = {queue["queue"]: queue["queued"] for queue in queues}
    check("jobs that wait in the queue of nobody", waiting["workflow"] == 1, waiting)


if __name__ == "__main__":
    tell(explain)
