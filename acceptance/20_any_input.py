"""Schemathesis over the whole OpenAPI, in all its phases and as three credentials: no 5xx, no answer that is not in the document.

Each refusal is a problem of RFC 9457. The server is one process from the first request to the last, and its memory is bounded.
"""

import json
import os
import subprocess
from pathlib import Path

from world import JOBFORGE, check, figure, tell, wait_until

SCHEMATHESIS = Path.home() / ".cache/jobforge/schemathesis/bin/st"
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method", "ignored_auth", "use_after_free")
EXAMPLES = os.environ.get("ACCEPTANCE_EXAMPLES", "25")
GROWTH = 300  # MiB


def any_input(world):
    world.dev("--no-demo")
    dev = json.loads((world.dir / "data/dev.json").read_text())
    process = serve(world, dev)
    base = f"http://127.0.0.1:{port(world)}"
    before = resident(process.pid)
    for name, tenant in (("tenant", None), ("admin", dev["tenant_id"]), ("worker", None)):
        run(world, base, name, dev["keys"][name], tenant)
    check("the server is the process that was started", process.poll() is None)
    grown = (resident(process.pid) - before) / 1024
    check(f"    its memory grew by less than {GROWTH} MiB", grown < GROWTH, f"{grown:.0f} MiB")
    panics = world.log("serve").count("panicked")
    check("panics in its log", panics == 0, panics)


def serve(world, dev):
    """A server of its own, so that what `dev` does besides is not measured; without rate limits, which have their own story."""
    logins = {"JOBFORGE_SERVER__OPERATOR_URL": world.url("jobforge_scheduler"),
              "JOBFORGE_SERVER__WORKER_URL": world.url("jobforge_worker"),
              "JOBFORGE_SERVER__RATES__PER_CREDENTIAL": "1000000",
              "JOBFORGE_SERVER__RATES__REFUSED_PER_ADDRESS": "1000000"}
    process = world.spawn("serve", JOBFORGE, "serve", "--listen", "127.0.0.1:0", JOBFORGE_DATABASE_URL=dev["database_url"], **logins)
    world.wait_ready(process, lambda: port(world), "serve")
    return process


def port(world):
    """Where it says that it listens."""
    for line in world.log("serve").splitlines():
        if "http://127.0.0.1:" in line:
            return int("".join(c for c in line.split("http://127.0.0.1:", 1)[1].split("/")[0].split('"')[0] if c.isdigit()))
    return None


def run(world, base, name, key, tenant):
    headers = ["-H", f"Authorization: Bearer {key}"] + (["-H", f"JobForge-Tenant: {tenant}"] if tenant else [])
    # A long poll waits as long as it is told to; the routes of sessions end the credential in use.
    command = [SCHEMATHESIS, "run", f"{base}/openapi.json", "--phases", "examples,coverage,fuzzing,stateful",
               "--checks", ",".join(CHECKS), "-n", EXAMPLES, "--seed", "1", "--continue-on-failure", "--suppress-health-check", "all",
               "--request-timeout", "90", "--no-color", "--warnings", "off", *headers]
    log = world.dir / f"schemathesis-{name}.log"
    with open(log, "w") as out:
        done = subprocess.run([str(part) for part in command], cwd=world.dir, stdout=out, stderr=out, timeout=1500)
    told = log.read_text(errors="replace")
    summary = [line.strip() for line in told.splitlines() if "generated" in line or "passed" in line or "Tested" in line]
    if done.returncode != 0:
        print(told[-6000:])
    check(f"as {name}: nothing found", done.returncode == 0, "; ".join(summary[-2:]))


def resident(pid):
    """VmRSS in KiB."""
    line, = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


if __name__ == "__main__":
    tell(any_input)
