"""Secrets everywhere and jobs that try hard to tell them: they are in no log, no table and no answer.

Payloads are stored as they are, for workers alone; so is what a handler answered of them, and what a redrive keeps of them
for its undo. Those columns are left out of the search, and no login may read them.
"""

import base64
import json
import secrets
from urllib.parse import urlsplit

from servers import Http, free_ports
from world import ADMIN, APP, OPERATOR, TENANT, WORKER, Failed, check, figure, tell, wait_until

COMMANDS = """
[commands."story.leak"]
program = "/bin/sh"
args = ["-c", '''
body=$(cat)
env
cat /proc/*/environ | tr "\\0" "\\n"
echo "$body" >&2
echo "$1 $TOKEN"
printf %s "$1" | base64 -w0; echo
printf %s "$TOKEN" | base64 -w0; echo
printf "{{\\"copy\\": %s}}\\n" "$body"
''', "leak", "{payload.card}"]
stdin = "payload"
result = "last_line_json"
env.secret = { TOKEN = "env:JOBFORGE_SECRET_COMMAND" }

[commands."story.cry"]
program = "/bin/sh"
args = ["-c", 'echo "$1 is refused, with $TOKEN" >&2; exit 1', "cry", "{payload.card}"]
env.secret = { TOKEN = "env:JOBFORGE_SECRET_COMMAND" }
"""
# Payloads and what repeats them, by table.
RAW = {"jobs": ["payload"], "job_history": ["payload", "result"], "bulk_results": ["before"]}
SCHEMA = {"type": "object", "properties": {"card": {"type": "string"}, "pin": {"type": "string", "maxLength": 60, "writeOnly": True}}}


class Canary:
    """A secret; its mark is found in it however its other characters are written."""

    def __init__(self, name, plain=False):
        self.name, self.mark = name, secrets.token_hex(12)
        self.value = self.mark if plain else f'"{name}"/{self.mark}+&'

    @classmethod
    def of(cls, name, value):
        canary = cls(name, plain=True)
        canary.mark = canary.value = value
        return canary

    def forms(self):
        """As it is, as base64 of all of it, as the bytes of a dump."""
        return self.mark, base64.b64encode(self.value.encode()).decode().rstrip("="), self.mark.encode().hex()

    def is_in(self, text):
        return any(form in text for form in self.forms())


def canaries(world):
    # Not the name that `dev` picks up: its worker has none of the secrets.
    (world.dir / "programs.toml").write_text(COMMANDS)
    (world.dir / "leak.schema.json").write_text(json.dumps(SCHEMA))
    world.dev("--no-demo")
    flock = Flock(world)
    server = Http()
    set_up(world, flock, server)
    world.work("worker", world.url(WORKER), "--queues", "story", "--commands", "programs.toml",
               JOBFORGE_EGRESS__ALLOW="127.0.0.1", **flock.environment())
    leaks = leak(world, flock, server)
    went_through(world, flock, server)
    redrive(world, flock)
    said = answers(world, flock, leaks)
    for where, text in {**logs(world), **said, **tables(world)}.items():
        found = [canary.name for canary in flock.all if canary.is_in(text)]
        check(f"    {where}" if text else f"    {where} (empty)", not found, f"{len(text)} bytes" if not found else found)
    unread(world)


class Flock:
    """All canaries, by where they are kept."""

    def __init__(self, world):
        key = world.answer("connectors", "new-key")
        self.keys = key["key"]
        self.card, self.pin, self.patch = Canary("card"), Canary("pin"), Canary("patch")
        self.message, self.unfit = Canary("message"), Canary("unfit")
        self.sealed, self.env, self.command = Canary("sealed"), Canary("env"), Canary("command")
        self.mistaken, self.broker, self.s3 = Canary("mistaken"), Canary("broker", True), Canary("s3", True)
        logins = [Canary.of(f"password of {login}", urlsplit(world.url(login)).password) for login in (ADMIN, APP, OPERATOR, WORKER)]
        self.all = [*logins, Canary.of("seal key", self.keys.split(":", 1)[1]), Canary.of(
            "password of postgres", urlsplit(world.superuser()).password), *(
                one for one in vars(self).values() if isinstance(one, Canary))]
        figure("canaries", len(self.all))

    def too_long(self):
        """A payload that does not fit its schema."""
        return {"card": self.card.value, "pin": 3 * self.unfit.value}

    def environment(self):
        return {"JOBFORGE_SEAL_KEYS": self.keys, "JOBFORGE_SECRET_USER": self.env.value,
                "JOBFORGE_SECRET_COMMAND": self.command.value,
                # Nobody is there: the worker says so, without the password.
                "JOBFORGE_BROKER__URL": f"amqp://somebody:{self.broker.value}@127.0.0.1:{free_ports(1)[0]}/%2f",
                "JOBFORGE_ARTIFACTS__URL": "s3://nowhere/x", "JOBFORGE_ARTIFACTS__ENDPOINT": "http://127.0.0.1:1",
                "JOBFORGE_ARTIFACTS__ACCESS_KEY_ID": "me", "JOBFORGE_ARTIFACTS__SECRET_ACCESS_KEY": self.s3.value}


def set_up(world, flock, server):
    for kind in ("story.leak", "story.cry", "story.unfit", "connector.http.request", "demo.fail"):
        world.answer("definitions", "set", kind, "--queue", "story", "--max-attempts", 1)
    for kind in ("story.leak", "story.cry"):
        world.answer("definitions", "set", kind, "--redact", "/card", "--schema", "leak.schema.json")
    world.answer("definitions", "set", "demo.fail", "--redact", "/message")
    world.answer("definitions", "set", "connector.http.request", "--redact", "/json/card")
    headers = {"Authorization": "Bearer secret:token", "X-User": "secret:user"}
    world.answer("connectors", "set", "echo", "--setting", f"base_url={server.url}", "--setting", f"headers={json.dumps(headers)}",
                 "--secret", "user=env:JOBFORGE_SECRET_USER", "--secret-stdin", "token", given=f"{flock.sealed.value}\n",
                 **flock.environment())


def leak(world, flock, server):
    """Every job tells what it has in every way it knows; gives the jobs."""
    held = {"card": flock.card.value, "pin": flock.pin.value}
    ends = {world.enqueue("story.leak", held): "succeeded", world.enqueue("story.cry", held): "dead"}
    for path, end in (("/mirror", "succeeded"), ("/refuse", "failed")):
        sent = {"connector": "echo", "method": "POST", "url": path, "json": {"card": flock.card.value}}
        ends[world.enqueue("connector.http.request", sent)] = end
    ends[world.enqueue("demo.fail", {"message": f"could not charge {flock.message.value}"})] = "failed"
    # By SQL nobody looks at the schema before the worker does.
    unfit = json.dumps(flock.too_long())
    ends[world.value(world.url(APP), f"select id from jobforge.enqueue_job('{TENANT}', 'story.leak', '{unfit}')",
                     tenant=TENANT)] = "failed"
    for job, end in ends.items():
        world.job_that_is(end, job)
    figure("jobs that try to leak, ends", f"{len(ends)}, {', '.join(ends.values())}")
    return list(ends)


def went_through(world, flock, server):
    """What is not found later was really there."""
    heard = json.dumps(server.requests)
    for canary in (flock.sealed, flock.env, flock.card):
        check(f"the {canary.name} canary reached the HTTP server", canary.is_in(heard), "yes")
    stored = world.value(world.superuser(), "select string_agg(payload::text, ' ') from "
                         "(select payload from jobforge.jobs union all select payload from jobforge.job_history) j")
    for canary in (flock.card, flock.pin, flock.message, flock.unfit):
        check(f"the {canary.name} canary is in the stored payloads", canary.is_in(stored), "yes")


def redrive(world, flock):
    patch = [{"op": "replace", "path": "/card", "value": flock.patch.value}]
    made = world.answer("dead", "redrive", "--type", "story.cry", "--patch", json.dumps(patch), "--reason", "once more")
    dead = "select count(*) from jobforge.jobs where type = 'story.cry' and status = 'dead' and fence = 2"
    wait_until("the redriven job is dead again", lambda: world.value(world.superuser(), dead) == "1")
    figure("redriven with a canary in the patch", json.dumps(made)[:60])


def answers(world, flock, jobs):
    """What the commands say, to people and to programs, right and wrong ones."""
    asked = [("jobs", "list"), ("jobs", "summary"), ("dead", "list"), ("dead", "groups"), ("dead", "operations"),
             ("connectors", "list"), ("connectors", "show", "echo"), ("config", "show"), ("workers",), ("doctor",), ("queues",),
             ("definitions", "show", "story.leak")]
    for job in jobs:
        asked += [("jobs", "show", job), ("jobs", "explain", job), ("jobs", "result", job), ("dead", "show", job)]
    for operation in world.answer("dead", "operations"):
        asked.append(("dead", "show", operation["id"]))
    said = {}
    for words in asked:
        for form in ((), ("--json",)):
            done = world.jobforge(*words, *form, **flock.environment())
            name = f"jobforge {' '.join(words[:2])}"
            said[name] = said.get(name, "") + done.stdout + done.stderr
    wrong = free_ports(1)[0]
    url = f"postgres://{APP}:{urlsplit(world.url(APP)).password}@127.0.0.1:{wrong}/jobforge"
    mistakes = {
        "an unreachable database": world.jobforge("jobs", "list", "--tenant", TENANT, url=url),
        "a payload that does not fit": world.jobforge("enqueue", "story.leak", "--payload", json.dumps(flock.too_long())),
        "a secret on the command line": world.jobforge("connectors", "set", "echo", "--secret", f"token={flock.mistaken.value}"),
        "keys that are none": world.jobforge("connectors", "reseal", JOBFORGE_SEAL_KEYS=f"key:{flock.mistaken.value}"),
        "a broker that is none": world.jobforge("jobs", "list", JOBFORGE_BROKER__URL=f"http://a:{flock.broker.value}@b"),
        "a patch that looks": world.jobforge("dead", "redrive", "--type", "story.cry", "--patch", json.dumps(
            [{"op": "test", "path": "/card", "value": flock.patch.value}])),
    }
    for what, done in mistakes.items():
        # A redrive tells of each job whether it was taken; the guess was right here, and is refused like a wrong one.
        if done.returncode == 0 and not done.stdout.startswith("0 redriven, 1 skipped"):
            raise Failed(f"{what}: was not refused: {done.stdout}")
        said[f"told of {what}"] = done.stdout + done.stderr
    return said


def logs(world):
    """What processes printed, Postgres too."""
    return {f"the log {path.relative_to(world.dir)}": path.read_text(errors="replace")
            for path in sorted(world.dir.rglob("*log")) if path.is_file()}


def tables(world):
    """All tables as text, partitions one by one, less the raw columns; those that hold nothing are not told."""
    admin = world.superuser()
    names = [row[0] for row in world.sql(admin, """select relname from pg_class
        where relnamespace = 'jobforge'::regnamespace and relkind = 'r' order by 1""")]
    found = {}
    for name in names:
        raw = RAW.get("job_history" if name.startswith("job_history_") else name, [])
        rows = world.sql(admin, f"select to_jsonb(t) - '{{{','.join(raw)}}}'::text[] from jobforge.{name} t")
        if rows:
            found[f"table {name}, {len(rows)} rows"] = "\n".join(row[0] for row in rows)
    return found


def unread(world):
    for login in (APP, OPERATOR, WORKER):
        for table, column in ((table, column) for table, columns in RAW.items() for column in columns):
            _, code, text = world.psql(world.url(login), f"select {column} from jobforge.{table}", tenant=TENANT)
            if code != "42501":
                raise Failed(f"{login} reads {table}.{column}: {code} {text}")
    check("logins that read the columns left out", True, 0)


if __name__ == "__main__":
    tell(canaries)
