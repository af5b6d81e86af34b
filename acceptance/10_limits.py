"""Limits under eight workers: three at once and never four, 50 a second and no other rate, changes at once."""

import threading
import time

from world import APP, OPERATOR, TENANT, WORKER, check, figure, tell, wait_until

QUEUE, WORKERS = "story", 8
# What runs, looked at as fast as one session can: the most, the looks, and how many of them saw the most.
LOOKS = """do $$
declare
  v_until timestamptz := clock_timestamp() + make_interval(secs => {seconds});
  v_now integer; v_most integer := 0; v_looks integer := 0; v_there integer := 0;
begin
  while clock_timestamp() < v_until loop
    select count(*) into v_now from jobforge.jobs where status = 'running' and queue = '{queue}';
    v_looks := v_looks + 1;
    if v_now > v_most then v_most := v_now; v_there := 0; end if;
    v_there := v_there + (v_now = v_most)::integer;
    perform pg_sleep(0.002);
  end loop;
  perform set_config('story.seen', v_most || ' ' || v_looks || ' ' || v_there, false);
end $$"""


def limits(world):
    world.dev("--no-demo")
    workers = [world.work(f"worker{n}", world.url(WORKER), "--queues", QUEUE, "--slots", "4") for n in range(WORKERS)]
    at_once(world)
    changed(world)
    rate(world)
    check("no worker was restarted", all(worker.poll() is None for worker in workers))


def enqueue(world, kind, payload, count):
    world.sql(world.url(APP), f"""select count(*) from jobforge.enqueue_jobs('{TENANT}',
        array_fill('{kind}'::text, array[{count}]), array_fill('{payload}'::jsonb, array[{count}]),
        array_fill('{QUEUE}'::text, array[{count}]))""", tenant=TENANT)


def operate(world, call):
    world.sql(world.url(OPERATOR), f"select jobforge.{call}")


def watch(world, seconds):
    """No login may see everybody's running jobs, so the superuser looks."""
    told = world.value(world.superuser(), LOOKS.format(seconds=seconds, queue=QUEUE), "select current_setting('story.seen')")
    return [int(part) for part in told.split()]


def left(world):
    return int(world.value(world.superuser(), f"select count(*) from jobforge.jobs where queue = '{QUEUE}'"))


def at_once(world):
    operate(world, f"upsert_tenant('{TENANT}', p_max_in_flight => 3)")
    seen = []
    watcher = threading.Thread(target=lambda: seen.extend(watch(world, 12)))
    watcher.start()
    enqueue(world, "demo.sleep", '{"ms": 30}', 150)
    wait_until("all jobs are done", lambda: left(world) == 0, seconds=120)
    watcher.join()
    most, looks, there = seen
    figure("looks at what runs, and those that saw the most", f"{looks}, {there}")
    check(f"the most ever running under a limit of 3, {WORKERS} workers", most == 3, most)


def changed(world):
    enqueue(world, "demo.sleep", '{"ms": 100}', 3000)
    for most in (6, 2, 4):
        operate(world, f"upsert_tenant('{TENANT}', p_max_in_flight => {most})")
        # What ran when it was lowered ends first.
        wait_until("no more run than may", lambda: watch(world, 0.01)[0] <= most, seconds=10)
        seen = watch(world, 3)[0]
        check(f"the most running after the limit became {most}", seen == most, seen)
    operate(world, f"upsert_tenant('{TENANT}', p_clear => '{{max_in_flight}}')")
    check("without it more run", watch(world, 2)[0] > 4)
    wait_until("all jobs are done", lambda: left(world) == 0, seconds=120)


def rate(world):
    operate(world, "upsert_definition('demo.echo', p_rate_per_second => 50)")
    enqueue(world, "demo.echo", "{}", 1300)
    time.sleep(22)
    starts, first = world.sql(world.superuser(), f"""select count(*) filter (where started_at < first + interval '20 seconds'),
        first from (select started_at, min(started_at) over () as first from jobforge.job_history
                    where queue = '{QUEUE}' and type = 'demo.echo') as h group by first""")[0]
    check("starts in 20 s at a rate of 50 a second", 980 <= int(starts) <= 1020, starts)
    operate(world, "upsert_definition('demo.echo', p_clear => '{rate}')")
    wait_until("without a rate the rest is done at once", lambda: left(world) == 0, seconds=10)


tell(limits)
