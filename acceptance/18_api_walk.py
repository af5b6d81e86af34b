"""The HTTP walks of README and guide, as they stand; and a key that one server revokes, another refuses within 5 s."""

import json
import re
import subprocess
import time

from servers import Api
from world import JOBFORGE, ROOT, TENANT, Failed, check, figure, tell, wait_until


def api_walk(world):
    world.dev("--no-demo")
    # As a reader has it: the executable on the path, the development server in the usual place.
    (world.dir / ".jobforge").symlink_to("data")
    (world.dir / "bin").mkdir()
    (world.dir / "bin/jobforge").symlink_to(JOBFORGE)
    readme(world)
    guide(world)
    revoked(world)


def readme(world):
    text = (ROOT / "README.md").read_text()
    block = next(block for block in blocks(text) if "$API/jobs" in block)
    page, explained, canceled, retried, waited, attempts, summary = run(world, block)
    check("README: the job is listed as it waits", page["jobs"][0]["status"] == "queued", page["jobs"][0]["type"])
    first = page["jobs"][0]["id"]
    check("README: why it waits", explained["reasons"][0]["reason"] != "", explained["reasons"][0]["reason"])
    check("README: it is canceled", (canceled["id"], canceled["status"]) == (first, "canceled"), canceled["status"])
    now = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86400))
    check("README: another one is told to run now", retried["run_at"] < now and retried["id"] != first, retried["run_at"])
    check("README: it ran", (waited["id"], waited["status"]) == (retried["id"], "succeeded"), waited["status"])
    check("README: its result is its payload", waited["result"] == {"hello": "world"})
    check("README: its attempts", [one["status"] for one in attempts["attempts"]] == ["succeeded"], len(attempts["attempts"]))
    check("README: the summary is of numbers", any(isinstance(value, int) for value in summary.values()), len(summary))


def guide(world):
    script = "\n".join(blocks((ROOT / "docs/guides/api.md").read_text()))
    told = run(world, script)
    made, _, many, first, again, by_shop, refusal = (one for one in told if isinstance(one, dict))
    check("guide: enqueued by keys of two roles", made["tenant_id"] == by_shop["tenant_id"] == TENANT)
    check("guide: of two jobs, taken in and refused", (many["enqueued"], many["refused"]) == (1, 1))
    check("guide: a key answers with the first job", again["existing"] and again["id"] == first["id"])
    check("guide: a refusal tells its code and reason", refusal["status"] == 404, f"{refusal['code']} {refusal['reason']}")


def revoked(world):
    servers = [Api(world, f"api-{number}", world.url) for number in (1, 2)]
    told = json.loads((world.dir / "data/dev.json").read_text())
    body = {"role": "producer", "tenant_id": TENANT, "name": "story"}
    status, _, made = servers[0].call(told["keys"]["admin"], "POST", "/admin/keys", body)
    check("a key is made through one server", status == 201, status)
    key, job = made["key"], {"type": "demo.echo"}
    used = [server.call(key, "POST", "/jobs", job)[0] for server in servers]
    check("and known to both", used == [201, 201], used)
    status = servers[0].call(told["keys"]["admin"], "DELETE", f"/admin/keys/{made['id']}")[0]
    at = time.monotonic()
    check("it is revoked through the first", status == 200, status)
    wait_until("the other one refuses it", lambda: servers[1].call(key, "POST", "/jobs", job)[0] == 401, every=0.05)
    took = time.monotonic() - at
    check("seconds until the other one refuses it, under 5", took < 5, f"{took:.1f}")
    check("the first one refuses it, too", servers[0].call(key, "POST", "/jobs", job)[0] == 401)


def blocks(text):
    """The commands of a document."""
    return re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)


def run(world, script):
    """What the commands of a script answer, line by line; a command that fails ends it."""
    strict = "set -euo pipefail; shopt -s inherit_errexit\n"
    own = world.environment()
    own["PATH"] = f"{world.dir / 'bin'}:{own['PATH']}"
    done = subprocess.run(["bash", "-c", strict + script], cwd=world.dir, env=own, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Failed(f"the walk ended with {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}")
    figure("commands that answered", len(done.stdout.splitlines()))
    return [parsed(line) for line in done.stdout.splitlines()]


def parsed(line):
    """A line of JSON, or as it stands."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return line


if __name__ == "__main__":
    tell(api_walk)
