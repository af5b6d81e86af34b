"""Finished jobs leave by dropped partitions, class by class; dead letters by their own class; nothing else goes.

The clock is the server's own here, so the story's jobs are made old by the superuser of the private Postgres.
"""

import time

from world import APP, OPERATOR, TENANT, WORKER, check, figure, tell

OTHER = "d0000000-0000-4000-8000-000000000002"
CLASSES = ("day", "week", "month", "year")
AGES = (0, 3, 10, 40)  # days
EACH = 250  # jobs of each class and age
# What is left of each class: the ages within its time.
LEFT = {"day": 1, "week": 2, "month": 3, "year": 4}
KINDS = "'{" + ",".join(f"keep.{name}" for name in CLASSES) + "}'"


def retention(world):
    world.dev("--no-demo")
    operator, admin = world.url(OPERATOR), world.superuser()
    for name in CLASSES:
        world.sql(operator, f"select jobforge.upsert_definition('keep.{name}', p_retention => '{name}', "
                  f"p_dead_retention => '{name}', p_queue => 'retention')")
    world.sql(operator, f"select jobforge.upsert_tenant('{OTHER}', 'other')")
    world.sql(world.url(WORKER), f"select jobforge.register_worker('story', 'here', 1, '', '{{retention}}', {KINDS}, 1000)")
    for name in CLASSES:
        enqueue(world, TENANT, name, EACH * len(AGES))
        enqueue(world, OTHER, name, 5)
    run(world, "complete_jobs(c.lease_id, c.tenants, c.jobs, c.fences)")
    make_old(world, admin)

    before = count(world, "select count(*) from jobforge.job_history")
    figure("finished jobs before, of them another tenant's", f"{before}, {5 * len(CLASSES)}")
    leaves = count(world, "select count(*) from pg_inherits where inhparent::regclass::text like 'jobforge.%history_%'")
    began = time.monotonic()
    world.sql(operator, "select * from jobforge.upkeep_partitions((select term from jobforge.lead('story')), 1000)")
    took = time.monotonic() - began
    dropped = leaves - count(world, "select count(*) from pg_inherits where inhparent::regclass::text like 'jobforge.%history_%'")
    check("partitions dropped, ms", dropped > 0, f"{dropped}, {1000 * took:.0f}")
    for name in CLASSES:
        left = count(world, f"select count(*) from jobforge.job_history where tenant_id = '{TENANT}' and retention = '{name}'")
        check(f"class {name}: jobs left of {EACH * len(AGES)}", left == EACH * LEFT[name], left)
    others = count(world, f"select count(*) from jobforge.job_history where tenant_id = '{OTHER}'")
    check("another tenant's, all young", others == 5 * len(CLASSES), others)

    defaults(world, admin)
    dead_letters(world, admin)


def defaults(world, admin):
    """A job that ended when no partition was there for it: doctor tells, and it leaves row by row."""
    world.sql(admin, f"""insert into jobforge.job_history select (h).* from (select jsonb_populate_record(h, jsonb_build_object(
        'id', gen_random_uuid(), 'finished_at', now() - interval '200 days')) as h from jobforge.job_history h
        where tenant_id = '{OTHER}' and retention = 'year') as old""", "select pg_stat_force_next_flush()", "select 1")
    words = world.jobforge("doctor", url=world.url(OPERATOR)).stdout
    told = [line for line in words.splitlines() if "default partition" in line]
    check("doctor tells of rows in a default partition", told and told[0].startswith("FAIL"), told[0].split("partition ")[1].strip())
    prune(world)
    stay = count(world, "select count(*) from jobforge.job_history where tableoid = 'jobforge.job_history_year_default'::regclass")
    check("within their class's time they stay", stay == 5, stay)
    world.sql(admin, "update jobforge.job_history set finished_at = finished_at - interval '250 days' "
              "where tableoid = 'jobforge.job_history_year_default'::regclass")
    prune(world)
    gone = count(world, "select count(*) from jobforge.job_history where tableoid = 'jobforge.job_history_year_default'::regclass")
    check("past it they are gone, left", gone == 0, gone)


def dead_letters(world, admin):
    for name in CLASSES:
        enqueue(world, TENANT, name, 100)
    run(world, "fail_jobs(c.lease_id, c.tenants, c.jobs, c.fences, array_fill('permanent'::text, array[cardinality(c.jobs)]), "
        "array_fill('bad'::text, array[cardinality(c.jobs)]))")
    world.sql(admin, "update jobforge.jobs set finished_at = finished_at - interval '10 days' where finished_at is not null")
    letters = count(world, "select count(*) from jobforge.jobs where finished_at is not null")
    prune(world)
    left = world.sql(admin, "select type, count(*) from jobforge.jobs where finished_at is not null group by 1 order by 1")
    check(f"dead letters of {letters} left after ten days", left == [["keep.month", "100"], ["keep.year", "100"]],
          ", ".join(f"{kind} {number}" for kind, number in left))
    orphans = count(world, "select count(*) from jobforge.attempts a where not exists (select from jobforge.jobs j where j.id = a.job_id)")
    check("attempts without their job", orphans == 0, orphans)


def enqueue(world, tenant, name, number):
    world.sql(world.url(APP), f"select count(*) from jobforge.enqueue_jobs('{tenant}', array_fill('keep.{name}'::text, "
              f"array[{number}]), array_fill('{{}}'::jsonb, array[{number}]))", tenant=tenant)


def run(world, report):
    """All that waits is claimed and reported on, with no handler between."""
    done = world.value(world.url(WORKER), f"""select count(*) from (
        select lease_id, array_agg(tenant_id) as tenants, array_agg(id) as jobs, array_agg(fence) as fences
        from jobforge.claim_jobs('story', '{{retention}}', {KINDS}, 5000) where id is not null group by 1) as c
        cross join lateral jobforge.{report} as r where r.verdict = 'done'""")
    check("jobs claimed and reported on", int(done) > 0, done)


def make_old(world, admin):
    """The partitions of past days, as upkeep made them in their time, and a quarter of each class's jobs on each of them."""
    for age in AGES[1:]:
        world.sql(admin, f"""do $$ declare v record; begin
            for v in select * from jobforge.wanted_partitions(now() - interval '{age} days') as w
                where to_regclass('jobforge.' || w.leaf) is null loop
              execute format('create table jobforge.%I partition of jobforge.%I for values from (%L) to (%L)',
                v.leaf, v.parent, v.first, v.past);
              execute format('alter table jobforge.%I owner to jf_owner', v.leaf);
              execute format('alter table jobforge.%I enable row level security, force row level security', v.leaf);
            end loop; end $$""")
    world.sql(admin, f"""update jobforge.job_history h set finished_at = h.finished_at - (array[{", ".join(map(str, AGES))}])[r.n]
          * interval '1 day'
        from (select id, 1 + (row_number() over (partition by retention order by id) - 1) / {EACH} as n
              from jobforge.job_history where tenant_id = '{TENANT}') as r where r.id = h.id and r.n > 1""")


def prune(world):
    """As the scheduler does, until nothing is left."""
    after = "null"
    while True:
        more, after = world.sql(world.url(OPERATOR), "select more, after from jobforge.prune((select term from "
                                f"jobforge.lead('story')), 1000, {after})")[-1]
        after = f"'{after}'"
        if more == "f":
            return


def count(world, sql):
    return int(world.value(world.superuser(), sql))


if __name__ == "__main__":
    tell(retention)
