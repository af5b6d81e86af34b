-- owner: jf_sys
-- Sleep: who sleeps says so, and one sleeper looks each second for all of them. NOTIFY is a hint, polling the floor.

create or replace function jobforge.sleep_worker(
  p_worker_id text, p_queues text[], p_types text[], p_seconds integer default 60) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.login_tenant();
  perform jobforge.require_claim(p_worker_id, p_queues, p_types, 1, null);
  perform jobforge.require_worker_id(p_worker_id);
  if p_seconds is null or p_seconds not between 1 and 3600 then
    perform jobforge.refuse('JF001', 'sleep_out_of_range', 'p_seconds must be 1 to 3600');
  end if;
  insert into jobforge.sleepers as s (worker_id, queues, types, expires_at)
  values (p_worker_id, p_queues, p_types, v_now + make_interval(secs => p_seconds))
  on conflict (worker_id) do update
  set queues = excluded.queues, types = excluded.types, expires_at = excluded.expires_at;
  update jobforge.workers w set last_seen = v_now, running = 0 where w.worker_id = p_worker_id;
  return v_now + make_interval(secs => p_seconds);
end
$$;
comment on function jobforge.sleep_worker(text, text[], text[], integer) is
  'Marks a worker asleep for its lanes: from now on an enqueue for them notifies. The worker looks once more after it.';
grant execute on function jobforge.sleep_worker(text, text[], text[], integer) to jf_worker;

create or replace function jobforge.wake_worker(p_worker_id text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform jobforge.login_tenant();
  delete from jobforge.sleepers s where s.worker_id = p_worker_id;
  return found;
end
$$;
comment on function jobforge.wake_worker(text) is 'Takes the mark back once claims come back full: a busy worker needs no NOTIFY.';
grant execute on function jobforge.wake_worker(text) to jf_worker;

create or replace function jobforge.look(p_worker_id text)
returns table (sentinel boolean, found_work boolean, next_due timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.login_tenant();
  perform jobforge.require_worker_id(p_worker_id);
  -- Before this sign of life hides the gap from the leader.
  perform jobforge.notice_outage(v_now);
  insert into jobforge.sentinel as s (holder, expires_at) values (p_worker_id, v_now + interval '2 seconds')
  on conflict (one) do update set holder = excluded.holder, expires_at = excluded.expires_at
  where s.holder = excluded.holder or s.expires_at <= v_now;
  sentinel := found;
  if sentinel then
    perform jobforge.promote(v_now, 1000);
    found_work := exists (
      select from jobforge.sleepers s
      cross join unnest(s.queues) as q(queue) cross join unnest(s.types) as y(type)
      cross join lateral (
        (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready and j.lease_id is null
           and j.deaths < 2 and j.priority >= 10 and not j.keyed limit 1)
        union all
        (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready
           and (j.deaths >= 2 or (j.priority < 10 and not j.keyed)) limit 1)
        union all
        (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2 and j.keyed
         limit 1)) as w
      where s.expires_at > v_now and not jobforge.is_paused('queue', q.queue, v_now)
        and not jobforge.is_paused('definition', y.type, v_now));
    if found_work then
      perform pg_notify('jobforge_wake', '');
    end if;
    -- The others hear that somebody looks, and need not.
    perform pg_notify('jobforge_tick', p_worker_id);
  end if;
  next_due := (select f.run_at from jobforge.jobs f
               where f.status = 'queued' and not f.ready and not f.taken and f.finished_at is null
               order by f.run_at, f.tenant_id, f.id limit 1);
  return next;
end
$$;
comment on function jobforge.look(text) is
  'One sleeper''s look for all: makes due work ready, wakes the sleepers if there is work, and tells when more falls due.';
grant execute on function jobforge.look(text) to jf_worker;
