"""A fresh clone in an ordinary user's hands: `make run` builds, runs demo jobs within a minute of the build, and keeps its data.

    ACCEPTANCE_TARGET=/var/tmp/clone   what is fetched and compiled is kept there, and the story's next time spares the dependencies
    ACCEPTANCE_MAKE_TEST=1             also `make test`, twice as the ordinary user, and where root plays the story twice as root

Root makes a user for the story and removes it at the end; anybody else is that user. The user has no toolchain, and root's may lie in
a directory that is closed to others: then it is mounted where the user reaches it, for the story's own processes alone.
"""

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from world import APP, ROOT, TENANT, Failed, alive, check, children, end, figure, tell, wait_until

COUNT = "select (select count(*) from jobforge.jobs) + (select count(*) from jobforge.job_history)"
SUCCEEDED = "select count(*) from jobforge.job_history where status = 'succeeded'"
AN_HOUR = 3600
# Only processes started by this one see the mount, and it is gone with them.
MOUNT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def fresh_clone(world):
    clone = world.dir / "jobforge"
    # Hard links would make the files that are given away here those of the repository itself.
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=clone, capture_output=True, text=True, check=True)
    figure("a clone of", head.stdout.strip())
    (world.dir / "data").symlink_to(clone / ".jobforge")  # where the world looks for what `dev` started
    kept = os.environ.get("ACCEPTANCE_TARGET")
    user = Ordinary(world, Path(kept).resolve() if kept else None)
    try:
        figure("played by", user.name)
        user.takes(clone)
        first = run_and_look(world, user, clone, "first", stopped_alone)
        run_and_look(world, user, clone, "second", stopped_as_by_a_terminal, kept=first)
        if os.environ.get("ACCEPTANCE_MAKE_TEST") == "1":
            make_tests(world, user, clone)
        else:
            print("  `make test` is left out, because it compiles and runs for an hour: ACCEPTANCE_MAKE_TEST=1 asks for it", flush=True)
    finally:
        user.leave()


def run_and_look(world, user, clone, name, stop, kept=0):
    """`make run` until demo jobs have succeeded, and its end; how many jobs there were."""
    began = time.monotonic()
    process = user.spawn(name, clone, "make", "run")
    built = wait_until("it is built", lambda: built_at(world, process, name), seconds=AN_HOUR)
    figure(f"{name} `make run`: seconds until it was built", f"{built - began:.1f}")
    wait_until("it runs", lambda: process.poll() is not None or (clone / ".jobforge/dev.json").exists())
    if process.poll() is not None:
        raise Failed(f"make run ended: {process.returncode}")
    app = world.url(APP)
    before = int(world.value(app, COUNT, tenant=TENANT))
    check(f"{name} `make run`: jobs that are there, of those before", before >= kept, f"{before}, {kept}")
    done = int(world.value(app, SUCCEEDED, tenant=TENANT))
    wait_until("ten more demo jobs succeed", lambda: int(world.value(app, SUCCEEDED, tenant=TENANT)) >= done + 10)
    took = time.monotonic() - built
    check("seconds from then until ten demo jobs had succeeded, under 60", took < 60, f"{took:.1f}")
    owners = {path.owner() for path in (clone / "target/release/jobforge", clone / ".jobforge/dev.json")}
    check("what was built and made is the user's", owners == {user.name}, ", ".join(owners))
    jobs = int(world.value(app, COUNT, tenant=TENANT))
    family = [process.pid, *children(process.pid)]
    if len(family) < 5:
        raise Failed(f"only {len(family)} processes found: this story looks for Postgres in the wrong place")
    stop(process, family)
    left = [pid for pid in family if alive(pid)]
    check(f"left of {len(family)} processes", not left, len(left))
    check("it ended in order", "stopped; the data stays in .jobforge" in world.log(name))
    check("dev.json is withdrawn", not (clone / ".jobforge/dev.json").exists())
    return jobs


def built_at(world, process, name):
    """When cargo said that it is done. The clock is read at the sight of it, so the time may be late by a tenth of a second."""
    if process.poll() is not None:
        raise Failed(f"make run ended: {process.returncode}")
    return time.monotonic() if re.search(r"Finished `release`", world.log(name)) else None


def stopped_alone(process, family):
    """To JobForge alone, whose exit code then is that of make."""
    told = {pid: subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout for pid in family}
    own = [pid for pid, args in told.items() if args.strip() == "target/release/jobforge dev"]
    if len(own) != 1:
        raise Failed(f"{len(own)} processes are `jobforge dev`")
    os.kill(own[0], signal.SIGINT)
    code = process.wait(timeout=60)
    check("exit code after a Ctrl-C that only `jobforge dev` hears, by make", code == 0, code)


def stopped_as_by_a_terminal(process, _):
    """To the whole group. GNU make then ends itself by the same signal, whatever the code of its command."""
    os.killpg(process.pid, signal.SIGINT)
    figure("make's own end after a Ctrl-C, which it hears, too", process.wait(timeout=60))


class Ordinary:
    """Somebody without rights, with a home of its own: made for this story where root plays it, else whoever does."""

    def __init__(self, world, kept):
        self.world, self.made, self.before = world, os.geteuid() == 0, []
        self.home, self.kept = world.dir / "home", kept
        self.home.mkdir()
        self.settings = {"JOBFORGE_PG_BIN": ""}  # `make run` looks for Postgres by itself
        if not self.made:
            self.name = pwd.getpwuid(os.geteuid()).pw_name
            return
        toolchain = self.toolchain()
        self.name = f"jobforge-{os.getpid()}"
        subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", self.home, "--shell", "/bin/sh",
                        self.name], check=True)
        self.settings |= {"USER": self.name, "LOGNAME": self.name}
        self.before = [*toolchain, "setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--init-groups"]

    def toolchain(self):
        """Root's own, without rustup, whose links lead back to root's home. What a command is put behind to see it."""
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, capture_output=True, text=True, check=True)
        sysroot, place = Path(sysroot.stdout.strip()).resolve(), self.world.dir / "toolchain"
        place.mkdir()
        # Cargo knows a dependency by where its source lies: what was compiled counts only beside the same source.
        cargo = (self.kept or self.home) / "cargo"
        own = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry"
        for part in ("index", "cache"):  # what is there already is not fetched again
            if (own / part).exists() and not (cargo / "registry" / part).exists():
                shutil.copytree(own / part, cargo / "registry" / part)
        path = [place / "bin", cargo / "bin", "/usr/local/bin", "/usr/bin", "/bin"]
        self.settings |= {"HOME": str(self.home), "CARGO_HOME": str(cargo), "PATH": ":".join(map(str, path))}
        return ["unshare", "--mount", "sh", "-c", MOUNT, "sh", sysroot, place]

    def takes(self, clone):
        """The clone is the user's from here on, and what was kept for it."""
        if self.kept:
            for part, place in (("target", clone / "target"), ("bench", clone / "bench/target")):
                (self.kept / part).mkdir(parents=True, exist_ok=True)
                place.symlink_to(self.kept / part)
        else:
            print("  everything is compiled, which takes its time: see ACCEPTANCE_TARGET in the story's head", flush=True)
        for directory in (clone, self.home, self.kept) if self.made else ():
            if directory:
                subprocess.run(["chown", "-R", f"{self.name}:", directory], check=True)

    def spawn(self, name, directory, *command):
        """A process of the user's, in a session without a terminal and without anything of the caller's toolchain."""
        without = [word for key in os.environ if key.startswith(("RUST", "CARGO", "XDG_")) for word in ("-u", key)] if self.made else []
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        return self.world.spawn(name, *self.before, "env", "-C", directory, *without, *settings, *command)

    def leave(self):
        for process in self.world.processes:
            end(process)
            # What make would not wait for any more.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if self.made:
            subprocess.run(["userdel", "--force", self.name], check=True)


def make_tests(world, user, clone):
    """Root comes second: it could write to what the user made, and the user not to what root did."""
    for turn in ("once", "again"):
        make_test(world, user.spawn(f"test-{turn}", clone, "make", "test"), f"test-{turn}", f"{user.name}, {turn}")
    if os.geteuid() != 0:
        return
    subprocess.run(["chown", "-R", "root:", clone], check=True)
    for turn in ("once", "again"):
        name = f"root-{turn}"
        make_test(world, world.spawn(name, "env", "-C", clone, "make", "test", JOBFORGE_PG_BIN=""), name, f"root, {turn}")


def make_test(world, process, name, who):
    began = time.monotonic()
    code = process.wait(timeout=3 * AN_HOUR)
    counts = re.findall(r"^ *Summary \[[^\]]*\] *(\d+) tests? run", world.log(name), re.M)
    check(f"`make test` by {who}: exit code", code == 0, code)
    figure("    tests of the workspace and of the bench, seconds", f"{', '.join(counts)}; {time.monotonic() - began:.0f}")


if __name__ == "__main__":
    tell(fresh_clone)
