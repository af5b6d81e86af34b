"""Fifty callers at once with one idempotency key make one job; a rolled-back transaction makes none."""

from concurrent.futures import ThreadPoolExecutor

from world import APP, TENANT, check, figure, tell

CALLERS = 50


def one_key(world):
    world.dev("--no-demo")
    app = world.url(APP)

    def enqueue(payload, key="order-17"):
        return f"""select id, existing from jobforge.enqueue_job('{TENANT}', 'demo.echo', '{payload}',
            p_idempotency_key => '{key}')"""

    # A psql each. All begin, look at the clock of their common start, and call in the same moment.
    with ThreadPoolExecutor(CALLERS) as callers:
        start = world.value(app, "select clock_timestamp() + interval '4 seconds'")
        wait = f"select pg_sleep(greatest(0, extract(epoch from timestamptz '{start}' - clock_timestamp())))"
        answers = list(callers.map(
            lambda _: world.sql(app, wait, enqueue('{"n": 1}'), tenant=TENANT)[-1], range(CALLERS)))
    ids = {row[0] for row in answers}
    made = sum(row[1] == "f" for row in answers)
    check("callers, different ids in their answers", len(ids) == 1, f"{CALLERS}, {len(ids)}")
    check("callers told that they made it, that it was there", made == 1, f"{made}, {CALLERS - made}")
    check("jobs in the database", count(world, app) == 1, count(world, app))

    _, code, reason = world.psql(app, enqueue('{"n": 2}'), tenant=TENANT)
    check("the same key with another payload", code == "JF004", f"{code} {reason}")

    world.sql(app, "begin", enqueue('{"n": 1}', "order-18"), "rollback", tenant=TENANT)
    check("jobs after a transaction that rolled back", count(world, app) == 1, count(world, app))
    existing = world.sql(app, enqueue('{"n": 3}', "order-18"), tenant=TENANT)[-1][1]
    check("its key is free, for another payload even", existing == "f")
    figure("jobs at the end", count(world, app))


def count(world, app):
    return int(world.value(app, """select (select count(*) from jobforge.jobs where type = 'demo.echo')
        + (select count(*) from jobforge.job_history where type = 'demo.echo')""", tenant=TENANT))


if __name__ == "__main__":
    tell(one_key)
