"""The world a story plays in: a directory of its own, the processes it starts, psql as any login.

A story is a function that takes a world. `tell` runs it and leaves nothing behind, however it ends.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBFORGE = os.environ.get("ACCEPTANCE_JOBFORGE", str(ROOT / "target/release/jobforge"))
TENANT = "d0000000-0000-4000-8000-000000000001"  # the demo tenant of `jobforge dev`
ADMIN, APP, WORKER, OPERATOR = "jobforge_admin", "jobforge_app", "jobforge_worker", "jobforge_scheduler"


class Failed(Exception):
    """The story did not go as promised."""


def figure(name, value):
    print(f"  {name:<58} {value}", flush=True)


def check(promise, kept, found=""):
    """Prints what was found, and ends the story when the promise is broken."""
    figure(promise, found if kept and found != "" else "yes" if kept else f"NO: {found}")
    if not kept:
        raise Failed(f"{promise}: {found}")


def wait_until(what, condition, seconds=60, every=0.1):
    """Polls until the condition gives something true, and gives that; the deadline is the story's failure."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(every)


def postgres_bin():
    """Where `jobforge dev` looks first."""
    if os.environ.get("JOBFORGE_PG_BIN"):
        return Path(os.environ["JOBFORGE_PG_BIN"])
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    found = found or [Path(path).resolve().parent for path in [shutil.which("postgres")] if path]
    # What `scripts/setup` fetched where apt brings none.
    cache = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    found = found or [path.parent for path in cache.glob("jobforge/postgres/*/bin/postgres")]
    if not found:
        raise Failed("no Postgres found: set JOBFORGE_PG_BIN")
    return max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", str(path))])


def as_server_user(*command):
    """Postgres and PgBouncer refuse to run as root."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else list(command)


class World:
    """What a story has: made when it begins, taken down when it ends."""

    def __init__(self, name):
        self.bin = postgres_bin()
        # Under /tmp and open, because root's Postgres runs as another user, who must get there.
        self.dir = Path(tempfile.mkdtemp(prefix=f"jobforge-{name}-", dir="/tmp"))
        self.dir.chmod(0o755)
        self.processes = []

    def environment(self, **settings):
        """Nothing of the caller's own settings gets into a story."""
        own = {k: v for k, v in os.environ.items() if not k.startswith(("JOBFORGE_", "PG", "DATABASE_URL"))}
        return {**own, "JOBFORGE_PG_BIN": str(self.bin), **settings}

    def spawn(self, name, *command, stdin=subprocess.DEVNULL, **settings):
        """Starts a process; what it says is in <name>.log. A group of its own: a Ctrl-C at the terminal is ours."""
        log = open(self.dir / f"{name}.log", "ab")
        process = subprocess.Popen(
            [str(part) for part in command], cwd=self.dir, env=self.environment(**settings),
            stdin=stdin, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.processes.append(process)
        return process

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def example(self, package, name):
        """A program that only stories need, built as the executable was."""
        profile = Path(JOBFORGE).resolve().parent.name
        flags = ["--release"] if profile == "release" else []
        build = ["cargo", "build", "--quiet", *flags, "-p", package, "--example", name]
        if subprocess.run(build, cwd=ROOT).returncode != 0:
            raise Failed(f"{name} does not compile")
        return ROOT / "target" / ("release" if flags else "debug") / "examples" / name

    def jobforge(self, *arguments, url=None, given=None, **settings):
        """Runs a command of the executable to its end; without a URL on what `dev` started, as the login that fits."""
        settings |= {"JOBFORGE_DATABASE_URL": url} if url else {"JOBFORGE_DATA_DIR": str(self.dir / "data")}
        return subprocess.run([JOBFORGE, *map(str, arguments)], cwd=self.dir, env=self.environment(**settings),
                              input=given, capture_output=True, text=True, timeout=120)

    def answer(self, *arguments, **settings):
        """What a command that must succeed answers for programs."""
        done = self.jobforge(*arguments, "--json", **settings)
        if done.returncode != 0:
            raise Failed(f"jobforge {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def enqueue(self, kind, payload, *flags, **settings):
        """The id of a new job, from the command line."""
        return self.answer("enqueue", kind, "--payload", json.dumps(payload), *flags, **settings)["id"]

    def job_that_is(self, status, job, seconds=60):
        """The job with its attempts, once it is so; another end of it is the story's failure."""
        def shown():
            told = self.answer("jobs", "show", job)
            now = told["job"]["status"]
            if now != status and now in ("succeeded", "failed", "dead", "canceled"):
                raise Failed(f"{told['job']['type']} is {now}, not {status}: {told['job']['error']}")
            return told if now == status else None
        return wait_until(f"{job} is {status}", shown, seconds=seconds)

    def dev(self, *flags, name="dev", **settings):
        """Starts `jobforge dev` on a private Postgres and waits until it says that it is ready."""
        process = self.spawn(name, JOBFORGE, "dev", "--data-dir", self.dir / "data", *flags, **settings)
        self.wait_ready(process, lambda: (self.dir / "data/dev.json").exists(), name)
        return process

    def work(self, name, url, *flags, **settings):
        """Starts `jobforge work` and waits until it is ready."""
        process = self.spawn(name, JOBFORGE, "work", *flags, JOBFORGE_DATABASE_URL=url, **settings)
        self.wait_ready(process, lambda: "the worker is ready" in self.log(name), name)
        return process

    def wait_ready(self, process, ready, name):
        wait_until(f"{name} is ready", lambda: process.poll() is not None or ready(), every=0.02)
        if process.poll() is not None:
            raise Failed(f"{name} ended at once")

    def url(self, login):
        """The URL of one of the logins that `jobforge dev` made."""
        base = json.loads((self.dir / "data/dev.json").read_text())["database_url"]
        password = json.loads((self.dir / "data/logins.json").read_text())[login]
        return f"postgres://{login}:{password}@{base.split('@', 1)[1]}"

    def superuser(self):
        """For what no login may see or break; stories say why they need it."""
        home = self.dir / "data/postgres"
        password, port = (home / "password").read_text().strip(), (home / "port").read_text().strip()
        return f"postgres://postgres:{password}@127.0.0.1:{port}/jobforge"

    def psql_program(self):
        """Beside the server, as Debian has it; a packed Postgres comes without one."""
        beside = self.bin / "psql"
        return beside if beside.exists() else shutil.which("psql") or beside

    def psql(self, url, *statements, tenant=None):
        """Runs statements in one session, each in its own transaction; gives (rows, error code, error text)."""
        if tenant:
            statements = (f"set app.tenant_id = '{tenant}'", *statements)
        commands = [part for statement in statements for part in ("-c", statement)]
        done = subprocess.run(
            [self.psql_program(), "-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", *commands, url],
            env=self.environment(PGCONNECT_TIMEOUT="10"), capture_output=True, text=True, timeout=120)
        rows = [line.split("\t") for line in done.stdout.splitlines() if line]
        if done.returncode == 0:
            return rows, None, ""
        code = re.search(r"(?:ERROR|FATAL): +([0-9A-Z]{5}): (.*)", done.stderr)
        reason = re.search(r"DETAIL: +(\w+)$", done.stderr, re.M)
        text = reason[1] if reason else code[2] if code else done.stderr.strip()
        return rows, code[1] if code else "unreached", text

    def sql(self, url, *statements, tenant=None):
        """Rows of statements that must succeed."""
        rows, code, text = self.psql(url, *statements, tenant=tenant)
        if code:
            raise Failed(f"{statements[-1]}: {code} {text}")
        return rows

    def value(self, url, *statements, tenant=None):
        return self.sql(url, *statements, tenant=tenant)[-1][0]

    def close(self):
        for process in reversed(self.processes):
            end(process)
        # A server whose owner was killed lives on; it is ours if it was started on a directory of ours.
        for file in self.dir.rglob("postmaster.pid"):
            pid = int(file.read_text().split()[0])
            told = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout
            if str(self.dir) in told:
                os.kill(pid, signal.SIGQUIT)
                wait_until("a left server ends", lambda file=file: not file.exists(), seconds=30)
        shutil.rmtree(self.dir, ignore_errors=True)


def end(process):
    """`jobforge dev` stops its Postgres when it is asked; the second signal does not wait for jobs. A process with a pipe to
    its standard input is one that takes its family down when that ends."""
    if process.stdin and process.poll() is None:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    for sign in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)


def children(pid):
    """Children and their children, by pid."""
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in table.splitlines()]
    found = [child for child, parent in pairs if parent == pid]
    return found + [grandchild for child in found for grandchild in children(child)]


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def marked(mark):
    """The processes that have this in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
    return found


def interrupted(sign, _):
    """The first signal ends the story; those after it must not end its cleaning up."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + sign)


def tell(story):
    """Runs a story in a world of its own; the exit code says how it went."""
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, interrupted)
    began = time.monotonic()
    try:
        world = World(story.__name__)
    except Failed as broken:
        sys.exit(f"  FAILED: {broken}")
    try:
        story(world)
        print(f"  told in {time.monotonic() - began:.1f} s", flush=True)
    except Failed as broken:
        print(f"  FAILED: {broken}", flush=True)
        for log in sorted(world.dir.glob("*.log")):
            print(f"  --- the end of {log.name}", *log.read_text(errors="replace").splitlines()[-8:], sep="\n    ")
        sys.exit(1)
    finally:
        world.close()
