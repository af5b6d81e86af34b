"""Real work without a line of code: programs, HTTP requests, reports and QR codes, enqueued from the command line.

What a payload holds arrives as data, whatever it looks like; what ran, how it ended and what it said can be looked up; what
is canceled is dead.
"""

import base64
import csv
import io
import json
import subprocess
from pathlib import Path

from servers import Http
from world import check, figure, marked, tell, wait_until

COMMANDS = r"""
[commands."story.print"]
program = "/usr/bin/printf"
args = ['%s\n', "{payload.text}"]

[commands."story.second"]
program = "/bin/sh"
args = ["-c", 'echo "this is attempt $1"; test "$1" -ge 2 || {{ echo "not yet" >&2; exit 3; }}; echo "{{\"done_in\": $1}}"',
        "second", "{attempt}"]
result = "last_line_json"

[commands."story.sleep"]
program = "/bin/sleep"
args = ["{payload.seconds}"]
grace_seconds = 1
"""
NASTY = r"""a b; $(touch pwned) `touch pwned` | & > pwned < /dev/null * ? ~ {payload.text} %s "quoted" 'single' \ $HOME #end"""


def without_code(world):
    decode = world.example("jobforge-connectors", "decode_qr")
    (world.dir / "commands.toml").write_text(COMMANDS)
    world.dev("--no-demo")
    program_runs(world)
    program_is_retried(world)
    program_is_canceled(world)
    request(world)
    reports(world)
    qr_code(world, decode)


def program_runs(world):
    told = world.job_that_is("succeeded", world.enqueue("story.print", {"text": NASTY}))
    attempt, = told["attempts"]
    check("command: what looks like shell arrives as data", attempt["stdout_tail"].rstrip("\n") == NASTY, "yes")
    check("    and nothing of it was run", not list(world.dir.rglob("pwned")))
    check("    pid, exit code", attempt["pid"] > 1 and attempt["exit_code"] == 0, f"{attempt['pid']}, {attempt['exit_code']}")
    words = world.jobforge("jobs", "show", told["job"]["id"]).stdout
    check("    and so for people", f"process {attempt['pid']}, exit code 0" in words and f"| {NASTY}" in words)


def program_is_retried(world):
    world.answer("definitions", "set", "story.second", "--retry-base-ms", "200")
    told = world.job_that_is("succeeded", world.enqueue("story.second", {}))
    first, second = told["attempts"]
    check("failing command: exit codes of its attempts", (first["exit_code"], second["exit_code"]) == (3, 0), "3, 0")
    check("    what the first said", first["stderr_tail"].strip() == "not yet", first["stderr_tail"].strip())
    figure("    its error", first["error"])
    check("    the result, the second's last line", told["job"]["result"] == {"done_in": 2}, told["job"]["result"])
    logged = [line["message"] for line in second["log"] or []]
    check("    lines of the second in its log", "this is attempt 2" in logged, len(logged))


def program_is_canceled(world):
    job = world.enqueue("story.sleep", {"seconds": 3600})
    mark = f"JOBFORGE_JOB_ID={job}"

    def asleep():
        attempts = world.answer("jobs", "show", job)["attempts"]
        pid = attempts and attempts[0]["pid"]
        return pid if pid and runs(pid, "sleep") else None
    pid = wait_until("the program sleeps, and its process is told", asleep)
    check("running command: its process in /proc", pid in marked(mark), pid)
    world.answer("jobs", "cancel", job, "--reason", "the story goes on")
    told = world.job_that_is("canceled", job)
    check("    once canceled: processes left", not runs(pid, "sleep") and not marked(mark), 0)
    attempt, = told["attempts"]
    check("    killed by signal", attempt["signal"] in (9, 15), attempt["signal"])


def runs(pid, program):
    try:
        return program in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def request(world):
    server = Http()
    payload = {"method": "POST", "url": f"{server.url}/orders", "query": {"q": "a&b=c"}, "json": {"id": 7, "note": NASTY}}
    result = world.job_that_is("succeeded", world.enqueue("connector.http.request", payload))["job"]["result"]
    heard, = server.requests
    check("HTTP: requests that came, path", heard["path"] == "/orders?q=a%26b%3Dc", f"1, {heard['path']}")
    check("    the body is the payload's", json.loads(heard["body"]) == payload["json"])
    check("    status; the answer is the result", json.loads(result["body"]) == heard, result["status"])
    refused = world.enqueue("connector.http.request", {"url": f"{server.url}/refuse"})
    told = world.job_that_is("failed", refused)
    check("    a 400 is final: attempts", len(told["attempts"]) == 1, f"1, {told['job']['error'].split(': ')[0]}")


def reports(world):
    rows = [["tea", 1.5, "=1+1"], ["<script>alert(1)</script>", -2, 'say "hi", twice']]
    made = {"title": "Sales", "columns": ["item", "price", "note"], "rows": rows}
    report = world.job_that_is("succeeded", world.enqueue("connector.report.generate", {"format": "csv", **made}))
    body = report["job"]["result"]["body"]
    read = list(csv.reader(io.StringIO(body)))
    wanted = [["item", "price", "note"], ["tea", "1.5", "'=1+1"], ["<script>alert(1)</script>", "-2", 'say "hi", twice']]
    check("report as csv: rows; a formula is a text", read == wanted, f"{len(read) - 1}; {read[1][2]}")
    report = world.job_that_is("succeeded", world.enqueue("connector.report.generate", {"format": "html", **made}))
    body = report["job"]["result"]["body"]
    check("    as html: markup in a value is text", "<script" not in body and "&lt;script" in body, f"{len(body)} bytes")
    source = {"format": "csv", "source": "jobs", "group_by": "type"}
    report = world.job_that_is("succeeded", world.enqueue("connector.report.generate", source))
    counted = {row["type"]: row for row in csv.DictReader(io.StringIO(report["job"]["result"]["body"]))}
    seen = counted["connector.http.request"]
    check("    of the tenant's own jobs: HTTP succeeded, failed", (seen["succeeded"], seen["failed"]) == ("1", "1"), "1, 1")


def qr_code(world, decode):
    text = "https://example.org/?q=Größe 42 €"
    result = world.job_that_is("succeeded", world.enqueue("connector.qr.generate", {"text": text}))["job"]["result"]
    png = base64.b64decode(result["png_base64"])
    read = subprocess.run([decode], input=png, capture_output=True)
    check("QR: a reader of its own reads the same text", read.stdout.decode() == text, f"{len(png)} bytes of PNG")


if __name__ == "__main__":
    tell(without_code)
