-- owner: jf_fn
-- A tenant at a glance: what it has, what came and went, its curves. Under the tenant, subject to row-level security.

create or replace function jobforge.job_summary(p_tenant_id uuid, p_limit integer default 10000)
returns table (
  blocked bigint, scheduled bigint, ready bigint, running bigint, failed bigint, dead bigint, capped boolean,
  oldest_ready timestamptz, enqueued_hour bigint, completed_hour bigint, failed_hour bigint, canceled_hour bigint,
  enqueued_day bigint, completed_day bigint, failed_day bigint, canceled_day bigint, enqueued_rate double precision,
  completed_rate double precision, failed_rate double precision, drain_seconds double precision, sampled_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_window record;
  v_last jobforge.tenant_stats;
  v_ends double precision;
begin
  perform jobforge.require_tenant(p_tenant_id);
  if p_limit is null or p_limit not between 1 and 100000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 100000');
  end if;
  -- The oldest first, by the key.
  select count(*) filter (where j.status = 'blocked'), count(*) filter (where j.status = 'queued' and not j.due),
    count(*) filter (where j.status = 'queued' and j.due), count(*) filter (where j.status = 'running'),
    count(*) filter (where j.status = 'failed'), count(*) filter (where j.status = 'dead'), count(*) > p_limit,
    min(j.run_at) filter (where j.status = 'queued' and j.due)
  into blocked, scheduled, ready, running, failed, dead, capped, oldest_ready
  from (select k.status, k.run_at, k.ready or k.run_at <= v_now as due from jobforge.jobs k
        where k.tenant_id = p_tenant_id order by k.id limit p_limit + 1) as j;
  select w.* into v_window from jobforge.rate_window(v_now) as w;
  sampled_at := v_window.sampled_at;
  if capped then
    -- Too many to count: the last sample knows more, if it has the tenant.
    select s.* into v_last from jobforge.tenant_stats s
    where s.tenant_id = p_tenant_id and s.at >= v_now - interval '3 minutes' order by s.at desc limit 1;
    scheduled := greatest(scheduled, v_last.queued - v_last.ready - blocked);
    ready := greatest(ready, v_last.ready);
    running := greatest(running, v_last.running);
    dead := greatest(dead, v_last.dead - failed);
  end if;

  if sampled_at is not null then
    select coalesce(sum(s.enqueued) filter (where s.at >= v_now - interval '1 hour'), 0),
      coalesce(sum(s.completed) filter (where s.at >= v_now - interval '1 hour'), 0),
      coalesce(sum(s.failed) filter (where s.at >= v_now - interval '1 hour'), 0),
      coalesce(sum(s.canceled) filter (where s.at >= v_now - interval '1 hour'), 0),
      coalesce(sum(s.enqueued), 0), coalesce(sum(s.completed), 0), coalesce(sum(s.failed), 0), coalesce(sum(s.canceled), 0)
    into enqueued_hour, completed_hour, failed_hour, canceled_hour, enqueued_day, completed_day, failed_day, canceled_day
    from jobforge.tenant_stats s where s.tenant_id = p_tenant_id and s.at >= v_now - interval '1 day';
    select coalesce(sum(s.enqueued), 0) / greatest(v_window.seconds, sum(s.seconds)),
      coalesce(sum(s.completed), 0) / greatest(v_window.seconds, sum(s.seconds)),
      coalesce(sum(s.failed), 0) / greatest(v_window.seconds, sum(s.seconds)),
      coalesce(sum(s.completed + s.failed + s.canceled), 0) / greatest(v_window.seconds, sum(s.seconds))
    into enqueued_rate, completed_rate, failed_rate, v_ends
    from jobforge.tenant_stats s where s.tenant_id = p_tenant_id and s.at >= v_window.first;
  end if;
  drain_seconds := case when ready = 0 then 0 when v_ends > enqueued_rate then ready / (v_ends - enqueued_rate) end;
  return next;
end
$$;
comment on function jobforge.job_summary(uuid, integer) is
  'A tenant''s live jobs by status, exact up to p_limit of them (then capped: at least so many, or as the last sample '
  'estimated); what came and went in the last hour and day, rates of the last minutes, and how long the due work takes at '
  'that pace (null: unknown, or it grows). Counts and rates are the samples''; without samples they are null.';
grant execute on function jobforge.job_summary(uuid, integer) to jf_tenant, jf_operator;

create or replace function jobforge.read_series(
  p_tenant_id uuid, p_metric text default null, p_from timestamptz default null, p_to timestamptz default null,
  p_points integer default 120)
returns table (metric text, at timestamptz, value double precision)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_to timestamptz := coalesce(p_to, jobforge.clock());
  v_from timestamptz := date_trunc('minute', coalesce(p_from, greatest(v_to, '1970-01-01') - interval '1 hour'));
  v_step double precision;
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_series(p_metric, v_from, v_to, p_points);
  v_step := greatest(extract(epoch from v_to - v_from) / p_points, 60);
  return query
  select m.metric, b.at, m.value
  from (
    select v_from + make_interval(secs => v_step * p.n) as at, avg(p.queued) as queued, avg(p.ready) as ready, avg(p.running) as running,
      avg(p.dead) as dead, sum(p.enqueued) as enqueued, sum(p.completed) as completed, sum(p.failed) as failed,
      sum(p.canceled) as canceled, max(p.oldest_seconds) as oldest_seconds
    from (select s.*, floor(extract(epoch from s.at - v_from) / v_step) as n from jobforge.tenant_stats s
          where s.tenant_id = p_tenant_id and s.at >= v_from and s.at < v_to) as p
    group by p.n) as b
  cross join lateral (values ('queued', b.queued::double precision), ('ready', b.ready), ('running', b.running), ('dead', b.dead),
    ('enqueued', b.enqueued), ('completed', b.completed), ('failed', b.failed), ('canceled', b.canceled),
    ('oldest_seconds', b.oldest_seconds)) as m(metric, value)
  where m.metric = coalesce(p_metric, m.metric) and m.value is not null
  order by m.metric, b.at;
end
$$;
comment on function jobforge.read_series(uuid, text, timestamptz, timestamptz, integer) is
  'A tenant''s sampled curves, at most p_points each: depths as averages, the age of the oldest ready job at its worst, '
  'what came and went as sums. A stretch without a sample has no point.';
grant execute on function jobforge.read_series(uuid, text, timestamptz, timestamptz, integer) to jf_tenant, jf_operator;
