"""Fairness between tenants: small ones beside 100,000 waiting jobs, shares by weight, a thousand equals."""

import time

from world import APP, OPERATOR, WORKER, Failed, check, figure, tell, wait_until

SMALL, ROUNDS, EQUALS = 50, 40, 1000
# Tenants <group>1, <group>2, … with jobs each, by one session that acts for one after the other.
CROWD = """do $$ begin
  for n in {first}..{last} loop
    perform set_config('app.tenant_id', '{group}0000000-0000-4000-8000-' || lpad(n::text, 12, '0'), false);
    perform jobforge.enqueue_jobs(current_setting('app.tenant_id')::uuid, array_fill('demo.sleep'::text, array[{jobs}]),
      array_fill('{{"ms": {ms}}}'::jsonb, array[{jobs}]), array_fill('{queue}'::text, array[{jobs}]),
      p_priorities => array_fill({priority}, array[{jobs}]));
  end loop;
end $$"""


def fairness(world):
    world.dev("--no-demo")
    for group, count in (("a", 1), ("b", SMALL), ("c", 3), ("e", EQUALS)):
        world.sql(world.url(OPERATOR), f"""select count(jobforge.upsert_tenant(('{group}0000000-0000-4000-8000-'
            || lpad(n::text, 12, '0'))::uuid, '{group}' || n)) from generate_series(1, {count}) as n""")
    beside_a_big_one(world)
    by_weight(world)
    equals(world)


def crowd(world, group, first, last, jobs, queue, priority=100, ms=1):
    world.sql(world.url(APP), CROWD.format(group=group, first=first, last=last, jobs=jobs, queue=queue, priority=priority,
                                           ms=ms))


def workers(world, queue, count=2):
    return [world.work(f"{queue}{n}", world.url(WORKER), "--queues", queue, "--slots", "20") for n in range(count)]


def stop(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def history(world, sql):
    """The history of all tenants; no login may see it, so the superuser looks."""
    return world.sql(world.superuser(), sql)


def beside_a_big_one(world):
    for _ in range(10):
        crowd(world, "a", 1, 1, 10_000, "big", priority=10, ms=20)
    running = workers(world, "big")
    for _ in range(ROUNDS):
        crowd(world, "b", 1, SMALL, 1, "big", priority=1000)
        time.sleep(0.25)
    small = "queue = 'big' and tenant_id::text like 'b%'"
    wait_until("the small tenants' jobs are done",
               lambda: int(history(world, f"select count(*) from jobforge.job_history where {small}")[0][0]) == SMALL * ROUNDS)
    waiting = int(history(world, "select count(*) from jobforge.jobs where queue = 'big'")[0][0])
    stop(running)
    figure("jobs of the big tenant still waiting", waiting)
    if waiting == 0:
        raise Failed("the big tenant's work was over before the small ones had theirs")
    waits = history(world, f"""select percentile_cont(array[0.5, 0.99]) within group (order by
        extract(epoch from started_at - created_at)) from jobforge.job_history where {small}""")[0][0]
    median, p99 = (float(part) for part in waits.strip("{}").split(","))
    figure(f"seconds to start of {SMALL * ROUNDS} small jobs: median", f"{median:.3f}")
    check("seconds to start, p99, within 1", p99 <= 1, f"{p99:.3f}")


def shares(world, queue, first):
    """Starts of each tenant among the first ones."""
    rows = history(world, f"""select count(*) from (select tenant_id from jobforge.job_history where queue = '{queue}'
        order by started_at, id limit {first}) as s group by tenant_id order by tenant_id""")
    return [int(row[0]) for row in rows]


def by_weight(world):
    for n, weight in ((1, 1), (2, 2), (3, 4)):
        world.sql(world.url(OPERATOR), f"""select jobforge.upsert_tenant('c0000000-0000-4000-8000-00000000000{n}',
            p_weight => {weight})""")
    crowd(world, "c", 1, 3, 5000, "weights")
    running = workers(world, "weights")
    done = "select count(*) from jobforge.job_history where queue = 'weights'"
    wait_until("enough has started", lambda: int(history(world, done)[0][0]) >= 8000)
    stop(running)
    found = shares(world, "weights", 7000)
    check("shares by the weights 1, 2, 4 within 10 % of 1000 each", all(
        0.9 <= starts / (1000 * weight) <= 1.1 for starts, weight in zip(found, (1, 2, 4))), found)
    world.sql(world.url(OPERATOR), """select count(jobforge.upsert_tenant(('c0000000-0000-4000-8000-00000000000' || n)::uuid,
        p_weight => 1)) from generate_series(1, 3) as n""")


def equals(world):
    # Jobs that take a moment: of quicker ones a claim takes several of each tenant in its turn.
    crowd(world, "e", 1, EQUALS, 40, "equals", ms=20)
    running = workers(world, "equals")
    done = "select count(*) from jobforge.job_history where queue = 'equals'"
    wait_until("half of it is done", lambda: int(history(world, done)[0][0]) >= EQUALS * 22, seconds=120)
    stop(running)
    found = shares(world, "equals", EQUALS * 20)
    found += [0] * (EQUALS - len(found))
    jain = sum(found) ** 2 / (EQUALS * sum(starts * starts for starts in found))
    figure(f"starts of {EQUALS} tenants: least, most", f"{min(found)}, {max(found)}")
    check("Jain's index of their shares", jain >= 0.99, f"{jain:.4f}")


tell(fairness)
