"""`jobforge doctor` says that all is well when it is, and fails once row-level security is switched off."""

import json

from world import APP, OPERATOR, TENANT, check, figure, tell


def doctor(world):
    world.dev("--no-demo")
    # Something to be seen: without a job a database without isolation shows nothing either.
    world.sql(world.url(APP), f"""select jobforge.enqueue_job('{TENANT}', 'demo.echo',
        p_run_at => clock_timestamp() + interval '1 day')""", tenant=TENANT)

    code, checks = examine(world)
    figure("healthy: checks, of them not ok", f"{len(checks)}, {worse(checks)}")
    check("healthy: exit code", code == 0, code)
    check("healthy: none fails", not [name for name in checks if checks[name] == "fail"])

    # Only a superuser or the owner can break this.
    world.sql(world.superuser(), "alter table jobforge.jobs disable row level security")
    code, checks = examine(world)
    check("row security off: exit code", code == 1, code)
    for name in ("row security", "isolation probe"):
        check(f"row security off: {name}", checks.get(name) == "fail", checks.get(name))
    words = world.jobforge("doctor", "--tenant", TENANT, url=world.url(OPERATOR)).stdout
    for line in words.splitlines():
        if line.startswith("FAIL") or "Not well" in line:
            figure("    in its words", line)
    check("its words name the table", "not enabled and forced on jobs" in words)

    world.sql(world.superuser(), "alter table jobforge.jobs enable row level security")
    code, _ = examine(world)
    check("mended: exit code", code == 0, code)


def examine(world):
    done = world.jobforge("doctor", "--json", "--tenant", TENANT, url=world.url(OPERATOR))
    answer = json.loads(done.stdout)
    return done.returncode, {one["name"]: one["verdict"] for one in answer["checks"]}


def worse(checks):
    return ", ".join(f"{name} {verdict}" for name, verdict in checks.items() if verdict != "ok") or "none"


if __name__ == "__main__":
    tell(doctor)
