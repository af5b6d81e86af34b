"""What the examples of the guides need around them: things a reader has, and what is not on every machine.

The story is 22_guides.py; this is its list of everything that is not as it stands in the documents.
"""

import json
import os
import tomllib

from world import ROOT, check

# Blocks that nothing here runs: the document, a piece of the block, and why.
EXEMPT = [
    ("README.md", "make run ", "builds everything and runs the tests: this story is among them"),
    ("docs/guides/identity.md", "/api/v1/bootstrap", "needs a server without any key: test without_a_key_the_console_has_a_token_for_the_first_one"),
    ("docs/guides/identity.md", "/auth/v1/admin/users/", "a call of the identity provider's own API"),
    ("docs/guides/identity.md", "/api/v1/session -H", "needs a token of that provider: tests of tokens.rs ask the same of a real server with an issuer of their own"),
    ("docs/guides/postgrest.md", "db-uri", "PostgREST itself is not part of the tests"),
    ("docs/guides/postgrest.md", "/rpc/enqueue_job", "PostgREST itself is not part of the tests; its statements are: isolation/postgrest.rs"),
    ("docs/guides/postgrest.md", "app_metadata\": {", "a token for PostgREST; claims of this form are those of isolation/postgrest.rs"),
]

# The key in $KEY: that of the demo tenant's administrator, unless the guide is for somebody else.
KEYS = {"administering.md": "admin", "http-workers.md": "worker"}

# `jobforge work` runs until somebody stops it: here it goes on until the script ends, and must then end in order.
PRELUDE = r"""
set -euo pipefail; shopt -s inherit_errexit
workers=()
jobforge() {
  case " $* " in
    " work "*"--once "*) command jobforge "$@" ;;
    " work "*)
      local log; log=$(mktemp work.XXXXXX)
      command jobforge "$@" >"$log" 2>&1 & workers+=($!)
      until grep -q 'the worker is ready' "$log"; do kill -0 $! || { cat "$log"; return 1; }; sleep 0.05; done ;;
    *) command jobforge "$@" ;;
  esac
}
finish() { local pid; for pid in "${workers[@]}"; do kill -TERM "$pid"; wait "$pid"; done; }
trap 'for pid in "${workers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done' EXIT
# The value of a member in what a command answered; the job that a command made, once it is so.
member() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
once() { until [ "$(command jobforge jobs show "$2" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["job"]["status"])')" = "$1" ]; do sleep 0.05; done; }
refusing() { curl() { command curl -sS --fail-with-body "$@"; }; }
dead() { local id; id=$(jobforge enqueue demo.fail --payload '{"permanent": true}' --json | member id); once failed "$id"; echo "$id"; }
"""

# Jobs of these types are enqueued and wait: a test asks nobody outside for anything.
NO_REQUESTS = """jobforge pause definition connector.http.request --reason 'no requests to the outside' >paused
jobforge pause definition connector.webhook.deliver --reason 'no requests to the outside' >paused"""

# What comes before and after a guide's commands.
AROUND = {
    "README.md": (NO_REQUESTS, ""),
    "connectors.md": (NO_REQUESTS, ""),
    "administering.md": ("refusing", ""),
    "artifacts.md": (
        """python3 -c 'import json; print(json.dumps({"text": "x" * 5000000}))' >large.json
           ID=$(jobforge enqueue demo.echo --payload @large.json --json | member id); once succeeded "$ID" """,
        "cmp <(python3 -m json.tool large.json) <(python3 -m json.tool result.json)"),
    "commands.md": (
        "",
        """ID=$(jobforge enqueue report.pdf --payload '{"url": "https://example.org/"}' --json | member id); once succeeded "$ID" """),
    "connector-configs.md": (
        """pass() { echo a secret of mine; }
           JOBFORGE_SEAL_KEYS=$(jobforge connectors new-key); export JOBFORGE_SEAL_KEYS""", ""),
    "dead-letters.md": (
        """JOB=$(dead); OPERATION=$(jobforge dead redrive "$(dead)" --json | member operation_id)
           jobforge definitions set mail.send >definition
           CAUSE=$(jobforge dead list --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["fingerprint"])')""", ""),
    "http-jobs.md": ("refusing", ""),
    "http-workers.md": (
        """jobforge definitions set post.send >definition; jobforge enqueue post.send >job""",
        """[ "$(jobforge jobs list --type post.send --status succeeded --json | grep -c post.send)" -ge 1 ]"""),
    "operating.md": (
        """jobforge tenants set 11111111-1111-1111-1111-111111111111 >tenant
           jobforge definitions set report.build >definition; jobforge definitions set mail.send >definition""", ""),
}

# What a guide's SQL finds there.
BEFORE_SQL = {
    "README.md": ["create table if not exists orders (item text); grant insert on orders to public"],
    "identity.md": ["select jobforge.upsert_tenant('11111111-1111-1111-1111-111111111111')"],
    "operating.md": ["drop role if exists the_operators_login; create role the_operators_login"],
    "postgrest.md": ["create schema if not exists api"],
}

# Files that no command of a guide uses, but one in its text.
USED = {
    ("connectors.md", "settings.json"): "jobforge connectors set acme --settings-file settings.json --secret token=env:JOBFORGE_SECRET_ACME",
    ("redaction.md", "pay.schema.json"): "jobforge definitions set pay.charge --schema pay.schema.json",
}


def fitting(name, directory):
    """What is not on every machine, and what is here instead."""
    if name != "commands.md":
        return []
    program = directory / "wkhtmltopdf"
    program.write_text('#!/bin/sh\nfor last; do :; done\necho "a page" >"$last"\n')
    program.chmod(0o755)
    for place in (directory, directory.parent):
        place.chmod(0o755)
    # Only root can drop to another user.
    user = 'user = "nobody"' if os.geteuid() == 0 else ""
    return [("/usr/bin/wkhtmltopdf", str(program)), ("/etc/jobforge/commands.toml", str(directory / "commands.toml")), ('user = "reports"', user)]


def python(name, text):
    """The publisher's line: with a channel that notes what it is given, which must be what workers listen to."""
    assert name == "rabbitmq.md", f"{name}: nothing runs its Python"
    noted = []
    channel = type("Channel", (), {"basic_publish": lambda _, *given: noted.append(given)})()
    exec(text, {"channel": channel, "json": json, "job_id": "01900000-0000-7000-8000-000000000000"})
    broker = tomllib.loads((ROOT / "crates/jobforge/src/config.default.toml").read_text())["broker"]
    exchange, key, body = noted[0]
    check("a hint goes where workers listen", (exchange, key) == (broker["exchange"], broker["routing_key"]), (exchange, key))
    check("and names its job", list(json.loads(body)) == ["job_id"])


def node_modules():
    """Where `scripts/setup test` puts the packages of webhooks' receivers."""
    return ROOT / "target/packages/webhooks/node_modules"


def js(name, text):
    """A receiver and a delivery that is signed with its secret."""
    assert name == "connectors.md", f"{name}: nothing runs its JavaScript"
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    return f"""
import {{ Webhook as Signer }} from "standardwebhooks";
const rawBody = '{{"id": 7}}', at = new Date();
const headers = {{ "webhook-id": "m", "webhook-timestamp": String(Math.floor(at / 1000)), "webhook-signature": new Signer("{secret}").sign("m", at, rawBody) }};
{text.replace("whsec_…", secret)}
if (event.id !== 7) throw new Error("another event");
"""
