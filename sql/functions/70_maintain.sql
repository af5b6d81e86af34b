-- owner: jf_sys
-- Upkeep, by one leader under a term. Every duty is idempotent and bounded; leadership is an optimisation.

create or replace function jobforge.lead(p_holder text, p_seconds integer default 10)
returns table (term bigint, leads boolean, expires_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  if p_holder is null or length(p_holder) not between 1 and 200 then
    perform jobforge.refuse('JF001', 'holder_malformed', 'p_holder must have 1 to 200 characters');
  elsif p_seconds is null or p_seconds not between 1 and 600 then
    perform jobforge.refuse('JF001', 'lease_out_of_range', 'p_seconds must be 1 to 600');
  end if;
  perform jobforge.notice_outage(v_now);
  return query
  update jobforge.leader l
  set holder = case when l.holder = p_holder or l.expires_at <= v_now then p_holder else l.holder end,
    term = l.term + (l.expires_at <= v_now)::integer,
    expires_at = case when l.holder = p_holder or l.expires_at <= v_now
      then v_now + make_interval(secs => p_seconds) else l.expires_at end,
    alive_at = v_now
  returning l.term, l.holder = p_holder, l.expires_at;
end
$$;
comment on function jobforge.lead(text, integer) is
  'Takes or keeps the leadership; the term grows with every taking. Whoever asks, the liveness is refreshed.';
grant execute on function jobforge.lead(text, integer) to jf_operator;

create or replace function jobforge.resign(p_holder text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update jobforge.leader l set expires_at = '-infinity' where l.holder = p_holder;
  return found;
end
$$;
comment on function jobforge.resign(text) is 'Gives the leadership up, so that the next one waits for nothing.';
grant execute on function jobforge.resign(text) to jf_operator;

create or replace function jobforge.require_term(p_term bigint) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- A leader that slept through its lease acts under its term or not at all.
  if not exists (select from jobforge.leader l where l.term = p_term and l.expires_at > jobforge.clock()) then
    perform jobforge.refuse('JF006', 'term_over', format('term %s is over', p_term));
  end if;
end
$$;
comment on function jobforge.require_term(bigint) is 'Refuses a duty whose leader no longer leads.';
grant execute on function jobforge.require_term(bigint) to jf_owner;

create or replace function jobforge.reap(p_term bigint, p_limit integer default 100)
returns table (leases integer, free integer, deaths integer, next_expiry timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_lease jobforge.leases;
  v_held record;
  v_started integer;
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  perform jobforge.notice_outage(v_now);
  leases := 0; free := 0; deaths := 0;
  for v_lease in
    select l.* from jobforge.leases l where l.expires_at <= v_now order by l.expires_at limit p_limit for update skip locked
  loop
    v_held := jobforge.held_jobs(v_lease.id);
    v_started := least(v_lease.window_size, coalesce(cardinality(v_held.job_ids), 0));
    -- The buffer starts in claim order: what lies behind the window had not started, and goes back free.
    perform jobforge.bury(v_lease, v_held.tenant_ids[:v_started], v_held.job_ids[:v_started], v_now);
    free := free + jobforge.requeue(v_lease.id, v_held.tenant_ids[v_started + 1:], v_held.job_ids[v_started + 1:], v_now);
    deaths := deaths + v_started;
    leases := leases + 1;
    delete from jobforge.lease_claims c where c.lease_id = v_lease.id;
    delete from jobforge.leases l where l.id = v_lease.id;
  end loop;
  next_expiry := (select min(l.expires_at) from jobforge.leases l);
  return next;
end
$$;
comment on function jobforge.reap(bigint, integer) is
  'Takes expired leases back: what may have started counts a death and is settled, the rest goes back free.';
grant execute on function jobforge.reap(bigint, integer) to jf_operator;

create or replace function jobforge.bury(p_lease jobforge.leases, p_tenant_ids uuid[], p_job_ids uuid[], p_now timestamptz)
returns void
language plpgsql volatile
as $$
declare
  v_job record;
begin
  for v_job in
    select j.tenant_id, j.id, j.fence, j.started_at, j.worker_no
    from (select x.* from unnest(p_tenant_ids, p_job_ids) as x(tenant_id, id) order by x.tenant_id, x.id) as u
    cross join lateral (
      select k.tenant_id, k.id, k.fence, k.started_at, k.worker_no from jobforge.jobs k
      where k.tenant_id = u.tenant_id and k.id = u.id and k.lease_id = p_lease.id for no key update) as j
  loop
    perform jobforge.note_attempt(v_job.tenant_id, v_job.id, v_job.fence, 'lost', v_job.worker_no, v_job.started_at, p_now,
      null, 'the worker''s lease ran out', null, null, null);
    perform jobforge.apply_end(v_job.tenant_id, v_job.id, 'lost', 'the worker''s lease ran out', null, p_now);
  end loop;
end
$$;
comment on function jobforge.bury(jobforge.leases, uuid[], uuid[], timestamptz) is
  'Counts a death for each job that a lost lease may have started, and settles it.';

create or replace function jobforge.promote_due(p_term bigint, p_limit integer default 1000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_promoted integer;
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  v_promoted := jobforge.promote(v_now, p_limit);
  if v_promoted > 0 and exists (select from jobforge.sleepers s where s.expires_at > v_now) then
    perform pg_notify('jobforge_wake', '');
  end if;
  return v_promoted;
end
$$;
comment on function jobforge.promote_due(bigint, integer) is 'Makes due work ready and wakes the sleepers; claims do it too.';
grant execute on function jobforge.promote_due(bigint, integer) to jf_operator;

create or replace function jobforge.prune(p_term bigint, p_limit integer default 1000)
returns table (keys integer, workers integer, sleepers integer, stats integer, history integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  -- A key outlives its job by a day at least.
  delete from jobforge.idempotency_keys k where k.ctid = any (array(
    select o.ctid from jobforge.idempotency_keys o
    where o.created_at < v_now - interval '1 day'
      and not exists (select from jobforge.jobs j where j.tenant_id = o.tenant_id and j.id = o.job_id)
      and not exists (select from jobforge.job_history h where h.tenant_id = o.tenant_id and h.id = o.job_id
                      and h.finished_at > v_now - interval '1 day')
    order by o.created_at limit p_limit for update skip locked));
  get diagnostics keys = row_count;
  delete from jobforge.workers w where w.ctid = any (array(
    select o.ctid from jobforge.workers o
    where o.last_seen < v_now - interval '400 days'
      and not exists (select from jobforge.leases l where l.worker_no = o.no) limit p_limit));
  get diagnostics workers = row_count;
  delete from jobforge.sleepers s where s.expires_at < v_now - interval '10 minutes';
  get diagnostics sleepers = row_count;
  delete from jobforge.queue_stats q where q.ctid = any (array(
    select o.ctid from jobforge.queue_stats o where o.at < v_now - interval '7 days' limit p_limit));
  get diagnostics stats = row_count;
  -- Claims sweep out a limit's runs when they come to it again; to many a key nobody comes again.
  delete from jobforge.limited_runs r where r.ctid = any (array(
    select o.ctid from jobforge.limited_runs o
    where not exists (select from jobforge.jobs j where j.tenant_id = o.tenant_id and j.id = o.job_id
                      and j.lease_id = o.lease_id and j.fence = o.fence)
    limit p_limit for update skip locked));
  -- What lies in a default partition is dropped with no partition: row by row, past its class's time.
  delete from jobforge.job_history h using (
    select o.tenant_id, o.id, o.finished_at, o.retention
    from (values ('day', 1), ('week', 7), ('month', 31), ('year', 366)) as c(retention, days)
    join jobforge.job_history o on o.retention = c.retention and o.finished_at < v_now - make_interval(days => c.days + 1)
    limit p_limit) as x
  where h.tenant_id = x.tenant_id and h.id = x.id and h.finished_at = x.finished_at and h.retention = x.retention;
  get diagnostics history = row_count;
  delete from jobforge.attempt_history h using (
    select o.tenant_id, o.job_id, o.number, o.job_finished_at, o.retention
    from (values ('day', 1), ('week', 7), ('month', 31), ('year', 366)) as c(retention, days)
    join jobforge.attempt_history o
      on o.retention = c.retention and o.job_finished_at < v_now - make_interval(days => c.days + 1)
    limit p_limit) as x
  where h.tenant_id = x.tenant_id and h.job_id = x.job_id and h.number = x.number
    and h.job_finished_at = x.job_finished_at and h.retention = x.retention;
  delete from jobforge.log_history h using (
    select o.tenant_id, o.job_id, o.number, o.line_no, o.job_finished_at, o.retention
    from (values ('day', 1), ('week', 7), ('month', 31), ('year', 366)) as c(retention, days)
    join jobforge.log_history o
      on o.retention = c.retention and o.job_finished_at < v_now - make_interval(days => c.days + 1)
    limit p_limit) as x
  where h.tenant_id = x.tenant_id and h.job_id = x.job_id and h.number = x.number and h.line_no = x.line_no
    and h.job_finished_at = x.job_finished_at and h.retention = x.retention;
  return next;
end
$$;
comment on function jobforge.prune(bigint, integer) is
  'Deletes, in bounded batches, keys a day past their job, long gone workers, old sleepers and samples.';
grant execute on function jobforge.prune(bigint, integer) to jf_operator;

create or replace function jobforge.sample_stats(p_term bigint, p_limit integer default 100000)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_queues integer;
begin
  perform jobforge.require_term(p_term);
  if p_limit is null or p_limit not between 1 and 10000000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 10000000');
  end if;
  insert into jobforge.queue_stats (at, queue, queued, ready, running, dead, capped)
  select v_now, s.queue, count(*) filter (where s.status = 'queued'), count(*) filter (where s.ready),
    count(*) filter (where s.status = 'running'), count(*) filter (where s.status in ('failed', 'dead')),
    sum(count(*)) over () >= p_limit
  from (select j.queue, j.status, j.ready from jobforge.jobs j limit p_limit) as s
  group by s.queue
  on conflict do nothing;
  get diagnostics v_queues = row_count;
  return v_queues;
end
$$;
comment on function jobforge.sample_stats(bigint, integer) is
  'Samples the queues'' depths over at most p_limit live jobs; capped says that there were more.';
grant execute on function jobforge.sample_stats(bigint, integer) to jf_operator;

create or replace function jobforge.require_limit(p_limit integer) returns void
language plpgsql immutable
as $$
begin
  if p_limit is null or p_limit not between 1 and 10000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 10000');
  end if;
end
$$;
comment on function jobforge.require_limit(integer) is 'Refuses a batch limit outside 1 to 10000.';
grant execute on function jobforge.require_limit(integer) to jf_fn, jf_owner;
