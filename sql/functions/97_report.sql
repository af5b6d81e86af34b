-- owner: jf_sys
-- Numbers for a report that a job makes: of the tenant whose job it is, and only while the worker holds that job.

create or replace function jobforge.count_jobs(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_group_by text, p_from timestamptz default null,
  p_to timestamptz default null, p_limit integer default 100000, p_budget_ms integer default 2000)
returns table (key text, jobs bigint, waiting bigint, running bigint, succeeded bigint, failed bigint, dead bigint,
  canceled bigint, mean_seconds double precision, at timestamptz, from_at timestamptz, to_at timestamptz, complete boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_until timestamptz := clock_timestamp() + make_interval(secs => p_budget_ms / 1000.0);
  v_to timestamptz := coalesce(p_to, v_now);
  v_from timestamptz := coalesce(p_from, v_to - interval '1 day');
  v_before uuid;
  v_first uuid;
  v_groups jobforge.job_count[] := '{}';
  v_seen integer;
  v_walked integer := 0;
begin
  perform jobforge.require_held(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  perform jobforge.require_period(v_from, v_to, p_group_by, array['type', 'queue', 'status', 'day']);
  if p_limit is null or p_limit not between 1 and 1000000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 1000000');
  elsif p_budget_ms is null or p_budget_ms not between 1 and 60000 then
    perform jobforge.refuse('JF001', 'budget_out_of_range', 'p_budget_ms must be 1 to 60000');
  end if;
  -- A job's id begins with the time it was made: the period is a stretch of the key, walked from its end.
  v_before := jobforge.make_id(jobforge.id_base(v_to), '0000-000000000000', 0);
  v_first := jobforge.make_id(jobforge.id_base(v_from), '0000-000000000000', 0);
  loop
    select b.groups, b.seen, coalesce(b.last, v_before) into v_groups, v_seen, v_before
    from jobforge.count_next_jobs(p_tenant_id, v_before, v_first, p_group_by, v_groups) as b;
    v_walked := v_walked + v_seen;
    exit when v_seen < 1000 or v_walked >= p_limit or clock_timestamp() > v_until;
  end loop;
  return query
  select g.key, g.jobs, g.waiting, g.running, g.succeeded, g.failed, g.dead, g.canceled,
    g.seconds / nullif(g.succeeded, 0), null::timestamptz, null::timestamptz, null::timestamptz, null::boolean
  from unnest(v_groups) as g order by g.key;
  return query select null, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint,
    null::double precision, v_now, v_from, v_to, v_seen < 1000;
end
$$;
comment on function jobforge.count_jobs(uuid, uuid, uuid, integer, text, timestamptz, timestamptz, integer, integer) is
  'The tenant''s jobs that were made in a period (a day before now unless told otherwise), by type, queue, status or day of '
  'UTC, by what they are now; seconds are those of the last attempt of what succeeded. About p_limit jobs are read, the '
  'newest first, within a time budget. The last row has no key: it tells the time, the period, and whether all were read. '
  'A stale lease or fence is refused.';
grant execute on function jobforge.count_jobs(uuid, uuid, uuid, integer, text, timestamptz, timestamptz, integer, integer)
  to jf_worker;

create or replace function jobforge.count_flow(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_group_by text, p_from timestamptz default null,
  p_to timestamptz default null)
returns table (key text, enqueued bigint, succeeded bigint, failed bigint, canceled bigint, estimated boolean,
  at timestamptz, from_at timestamptz, to_at timestamptz, complete boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_to timestamptz := coalesce(p_to, v_now);
  -- Samples are kept by the minute.
  v_from timestamptz := date_trunc('minute', coalesce(p_from, v_to - interval '1 day'));
  v_began timestamptz;
begin
  perform jobforge.require_held(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  perform jobforge.require_period(v_from, v_to, p_group_by, array['hour', 'day']);
  return query
  select to_char(date_trunc(p_group_by, s.at, 'UTC') at time zone 'UTC',
      case p_group_by when 'day' then 'YYYY-MM-DD' else 'YYYY-MM-DD"T"HH24:MI"Z"' end) as k,
    sum(s.enqueued)::bigint, sum(s.completed)::bigint, sum(s.failed)::bigint, sum(s.canceled)::bigint, bool_or(s.estimated),
    null::timestamptz, null::timestamptz, null::timestamptz, null::boolean
  from jobforge.tenant_stats s where s.tenant_id = p_tenant_id and s.at >= v_from and s.at < v_to
  group by k order by k;
  select s.began_at into v_began from jobforge.sampler s;
  return query select null, null::bigint, null::bigint, null::bigint, null::bigint, null::boolean, v_now, v_from, v_to,
    coalesce(v_began <= v_from and v_from >= v_now - interval '7 days', false);
end
$$;
comment on function jobforge.count_flow(uuid, uuid, uuid, integer, text, timestamptz, timestamptz) is
  'What came and went by hour or day of UTC, as the samples have it: for a week, of tenants among the busiest. The last row '
  'has no key: it tells the time, the period, and whether the samples reach over it. A stale lease or fence is refused.';
grant execute on function jobforge.count_flow(uuid, uuid, uuid, integer, text, timestamptz, timestamptz) to jf_worker;

create or replace function jobforge.count_next_jobs(
  p_tenant_id uuid, p_before uuid, p_first uuid, p_group_by text, p_groups jobforge.job_count[],
  out groups jobforge.job_count[], out seen integer, out last uuid)
language sql stable
as $$
  with batch as materialized (
    select n.id, n.status, n.started_at, n.finished_at,
      case p_group_by when 'type' then n.type when 'queue' then n.queue when 'status' then n.status
        else to_char(n.created_at at time zone 'UTC', 'YYYY-MM-DD') end as key
    from jobforge.next_jobs(p_tenant_id, p_before, true, true) as n where n.id >= p_first
  ), parts as (
    select b.key, 1::bigint as jobs, (b.status in ('blocked', 'queued'))::integer as waiting,
      (b.status = 'running')::integer as running, (b.status = 'succeeded')::integer as succeeded,
      (b.status = 'failed')::integer as failed, (b.status = 'dead')::integer as dead,
      (b.status = 'canceled')::integer as canceled,
      case when b.status = 'succeeded' then extract(epoch from b.finished_at - b.started_at) else 0 end as seconds
    from batch b
    union all
    select u.key, u.jobs, u.waiting, u.running, u.succeeded, u.failed, u.dead, u.canceled, u.seconds from unnest(p_groups) as u
  ), summed as (
    select row(p.key, sum(p.jobs), sum(p.waiting), sum(p.running), sum(p.succeeded), sum(p.failed), sum(p.dead),
      sum(p.canceled), sum(p.seconds))::jobforge.job_count as one
    from parts p group by p.key
  )
  select coalesce((select array_agg(s.one) from summed s), '{}'), (select count(*)::integer from batch),
    (select b.id from batch b order by b.id limit 1)
$$;
comment on function jobforge.count_next_jobs(uuid, uuid, uuid, text, jobforge.job_count[]) is
  'Adds the next thousand jobs before an id and not before another to the groups counted so far.';

create or replace function jobforge.require_period(
  p_from timestamptz, p_to timestamptz, p_group_by text, p_groups text[]) returns void
language plpgsql immutable
as $$
begin
  if p_from >= p_to then
    perform jobforge.refuse('JF001', 'range_empty', 'the period must end after it begins');
  elsif not isfinite(p_from) or not isfinite(p_to) or p_from < '1970-01-01T00:00:00Z' or p_to > '9999-01-01T00:00:00Z' then
    perform jobforge.refuse('JF001', 'range_out_of_range', 'the period must lie between the years 1970 and 9998');
  elsif p_group_by is null or p_group_by <> all (p_groups) then
    perform jobforge.refuse('JF001', 'group_unknown', format('jobs are grouped by %s', array_to_string(p_groups, ', ')));
  end if;
end
$$;
comment on function jobforge.require_period(timestamptz, timestamptz, text, text[]) is
  'Refuses a period that is empty or out of the calendar, and an unknown way to group.';
