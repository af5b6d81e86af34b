"""A login bound to one tenant tries by hand to reach another one's jobs, and gets nowhere."""

from world import ADMIN, APP, OPERATOR, TENANT, check, figure, tell

OTHER = "d0000000-0000-4000-8000-000000000002"
LOGIN, PASSWORD = "story_bound", "only-for-this-story"


def isolation_by_hand(world):
    world.dev("--no-demo")
    app, operator = world.url(APP), world.url(OPERATOR)
    # As an operator would do it: a login for an application of one tenant.
    world.sql(world.url(ADMIN), f"create role {LOGIN} login password '{PASSWORD}'", f"grant jf_tenant to {LOGIN}")
    world.sql(operator, f"select jobforge.upsert_tenant('{OTHER}', 'other')",
              f"select jobforge.bind_login('{LOGIN}', '{TENANT}')")
    bound = f"postgres://{LOGIN}:{PASSWORD}@{app.split('@', 1)[1]}"

    # Far in the future, so that they stay where they are.
    foreign = world.value(app, enqueue(OTHER, '{"secret": 1}'), tenant=OTHER)
    own = world.value(bound, enqueue(TENANT, "{}"), tenant=TENANT)
    look = "select count(*) from jobforge.jobs"
    check("its own tenant: enqueue, and jobs seen", world.value(bound, look, tenant=TENANT) == "1", "served, 1")

    refused(world, bound, OTHER, "JF009", "foreign tenant: enqueue", enqueue(OTHER, "{}"))
    refused(world, bound, OTHER, "JF009", "foreign tenant: get_job",
            f"select payload from jobforge.get_job('{OTHER}', '{foreign}')")
    nothing(world, bound, OTHER, "foreign tenant: jobs seen", look)
    nothing(world, bound, TENANT, "foreign job under its own tenant", f"{look} where id = '{foreign}'")

    refused(world, bound, None, "JF009", "no tenant set: enqueue", enqueue(TENANT, "{}"))
    nothing(world, bound, None, "no tenant set: jobs seen", look)

    refused(world, bound, TENANT, "42501", "direct insert",
            f"insert into jobforge.jobs (tenant_id, id) values ('{TENANT}', gen_random_uuid())")
    refused(world, bound, TENANT, "42501", "direct delete of its own job", f"delete from jobforge.jobs where id = '{own}'")
    refused(world, bound, TENANT, "42501", "payload column", "select payload from jobforge.jobs")
    for role in ("jf_fn", "jf_sys", "jf_owner", "jf_worker"):
        refused(world, bound, TENANT, "42501", f"set role {role}", f"set role {role}")
    refused(world, bound, TENANT, "42501", "claim as if it were a worker",
            "select * from jobforge.claim_jobs('story', array['default'], array['demo.echo'], 1)")

    still = world.value(app, f"select status from jobforge.jobs where id = '{foreign}'", tenant=OTHER)
    figure("the foreign job afterwards", still)
    check("it is as it was", still == "queued")


def enqueue(tenant, payload):
    return f"""select id from jobforge.enqueue_job('{tenant}', 'demo.echo', '{payload}',
        p_run_at => clock_timestamp() + interval '1 day')"""


def refused(world, url, tenant, expected, probe, statement):
    rows, code, reason = world.psql(url, statement, tenant=tenant)
    check(probe, code == expected, f"{code} {reason}" if code else f"answered {rows}")


def nothing(world, url, tenant, probe, statement):
    seen = world.value(url, statement, tenant=tenant)
    check(probe, seen == "0", seen)


if __name__ == "__main__":
    tell(isolation_by_hand)
