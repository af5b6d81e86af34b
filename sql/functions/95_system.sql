-- owner: jf_sys
-- The system at a glance, for operators: queues across tenants, their curves, who leads, what leases are alive.

create or replace function jobforge.queue_summary(p_limit integer default 20000)
returns table (
  queue text, queued bigint, ready bigint, running bigint, dead bigint, estimated boolean, oldest_ready timestamptz,
  enqueued_rate double precision, completed_rate double precision, failed_rate double precision, workers bigint, slots bigint,
  sleepers bigint, paused_by text, pause_reason text, paused_until timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_window record;
begin
  if p_limit is null or p_limit not between 1 and 1000000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 1000000');
  end if;
  select w.* into v_window from jobforge.rate_window(v_now) as w;
  return query
  with live as (
    select c.queue, sum(c.queued)::bigint as queued, sum(c.ready)::bigint as ready, sum(c.running)::bigint as running,
      sum(c.dead)::bigint as dead, bool_or(c.estimated) as estimated, min(c.oldest_ready) as oldest_ready
    from jobforge.count_live(p_limit, v_now, v_now) as c group by c.queue
  ), went as (
    select s.queue, sum(s.enqueued) / greatest(v_window.seconds, sum(s.seconds)) as enqueued_rate,
      sum(s.completed) / greatest(v_window.seconds, sum(s.seconds)) as completed_rate,
      sum(s.failed) / greatest(v_window.seconds, sum(s.seconds)) as failed_rate
    from jobforge.queue_stats s where s.at >= v_window.first group by s.queue
  ), served as (
    select q.queue, count(*) as workers, sum(w.slots)::bigint as slots
    from jobforge.workers w cross join unnest(w.queues) as q(queue)
    where w.stopped_at is null and w.last_seen >= v_now - interval '90 seconds' group by q.queue
  ), asleep as (
    select q.queue, count(*) as sleepers
    from jobforge.sleepers s cross join unnest(s.queues) as q(queue) where s.expires_at > v_now group by q.queue
  ), held as (
    select p.name as queue, p.author, p.reason, p.until
    from jobforge.pauses p where p.kind = 'queue' and (p.until is null or p.until > v_now)
  )
  select q.queue, coalesce(l.queued, 0), coalesce(l.ready, 0), coalesce(l.running, 0), coalesce(l.dead, 0),
    coalesce(l.estimated, false), l.oldest_ready, coalesce(g.enqueued_rate, 0 * v_window.seconds),
    coalesce(g.completed_rate, 0 * v_window.seconds), coalesce(g.failed_rate, 0 * v_window.seconds),
    coalesce(s.workers, 0), coalesce(s.slots, 0), coalesce(a.sleepers, 0), h.author, h.reason, h.until
  from (select u.queue from live u union select u.queue from went u union select u.queue from served u union select u.queue from held u) as q
  left join live l on l.queue = q.queue left join went g on g.queue = q.queue left join served s on s.queue = q.queue
  left join asleep a on a.queue = q.queue left join held h on h.queue = q.queue
  order by q.queue;
end
$$;
comment on function jobforge.queue_summary(integer) is
  'Each queue across tenants: depth, counted over about p_limit jobs and estimated from them where there are more, rates '
  'of the last minutes (null without samples), who serves it, and the pause that holds it.';
grant execute on function jobforge.queue_summary(integer) to jf_operator;

create or replace function jobforge.system_state(p_limit integer default 100)
returns table (
  leader_holder text, leader_term bigint, leader_expires_at timestamptz, leader_alive_at timestamptz, leads boolean,
  server_started_at timestamptz, live_leases bigint, expired_leases bigint, oldest_beat_at timestamptz, live_workers bigint,
  silent_workers bigint, sleepers bigint, tenants bigint, pauses bigint, sampled_at timestamptz, leases jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  return query
  select l.holder, l.term, l.expires_at, l.alive_at, l.expires_at > v_now, l.server_started_at,
    s.live, s.expired, s.oldest, w.live, w.silent,
    (select count(*) from jobforge.sleepers p where p.expires_at > v_now), (select count(*) from jobforge.tenants t),
    (select count(*) from jobforge.pauses p where p.until is null or p.until > v_now), (select r.sampled_at from jobforge.sampler r),
    (select coalesce(jsonb_agg(jsonb_build_object('lease_id', o.id, 'worker_id', o.worker_id, 'tenant_id', o.tenant_id,
        'solo', o.solo, 'created_at', o.created_at, 'last_beat_at', o.beat_at,
        'expires_at', jobforge.ran_out_at(o.expires_at, o.beat_at, o.ttl_seconds)) order by o.beat_at, o.id), '[]')
     from (select e.*, k.worker_id from jobforge.leases e left join jobforge.workers k on k.no = e.worker_no
           order by e.beat_at, e.id limit p_limit) as o)
  from jobforge.leader l
  cross join (select count(*) filter (where e.expires_at > v_now) as live, count(*) filter (where e.expires_at <= v_now) as expired,
                min(e.beat_at) filter (where e.expires_at > v_now) as oldest from jobforge.leases e) as s
  cross join (select count(*) filter (where k.last_seen >= v_now - interval '90 seconds') as live,
                count(*) filter (where k.last_seen < v_now - interval '90 seconds') as silent
              from jobforge.workers k where k.stopped_at is null) as w;
end
$$;
comment on function jobforge.system_state(integer) is
  'Who leads and until when, when anybody was last alive, the leases (p_limit of them, the longest silent first), and how '
  'many of everything.';
grant execute on function jobforge.system_state(integer) to jf_operator;

create or replace function jobforge.read_system_series(
  p_metric text default null, p_queue text default null, p_from timestamptz default null, p_to timestamptz default null,
  p_points integer default 120)
returns table (queue text, metric text, at timestamptz, value double precision)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_to timestamptz := coalesce(p_to, jobforge.clock());
  v_from timestamptz := coalesce(p_from, greatest(v_to, '1970-01-01') - interval '1 hour');
  v_step double precision;
begin
  perform jobforge.require_series(p_metric, v_from, v_to, p_points);
  v_step := extract(epoch from v_to - v_from) / p_points;
  return query
  select b.queue, m.metric, b.at, m.value
  from (
    select p.queue, v_from + make_interval(secs => v_step * p.n) as at, avg(p.queued) as queued, avg(p.ready) as ready,
      avg(p.running) as running, avg(p.dead) as dead, sum(p.enqueued) as enqueued, sum(p.completed) as completed,
      sum(p.failed) as failed, sum(p.canceled) as canceled, max(p.oldest_seconds) as oldest_seconds
    from (select s.*, least(floor(extract(epoch from s.at - v_from) / v_step), p_points - 1) as n from jobforge.queue_stats s
          where (p_queue is null or s.queue = p_queue) and s.at >= v_from and s.at <= v_to) as p
    group by p.queue, p.n) as b
  cross join lateral (values ('queued', b.queued::double precision), ('ready', b.ready), ('running', b.running), ('dead', b.dead),
    ('enqueued', b.enqueued), ('completed', b.completed), ('failed', b.failed), ('canceled', b.canceled),
    ('oldest_seconds', b.oldest_seconds)) as m(metric, value)
  where m.metric = coalesce(p_metric, m.metric) and m.value is not null
  order by b.queue, m.metric, b.at;
end
$$;
comment on function jobforge.read_system_series(text, text, timestamptz, timestamptz, integer) is
  'The queues'' sampled curves across tenants, as read_series tells a tenant''s.';
grant execute on function jobforge.read_system_series(text, text, timestamptz, timestamptz, integer) to jf_operator;

create or replace function jobforge.require_series(p_metric text, p_from timestamptz, p_to timestamptz, p_points integer)
returns void
language plpgsql immutable
as $$
begin
  if p_metric not in ('queued', 'ready', 'running', 'dead', 'enqueued', 'completed', 'failed', 'canceled', 'oldest_seconds') then
    perform jobforge.refuse('JF001', 'metric_unknown', format('p_metric: %s is not sampled', p_metric));
  elsif p_points is null or p_points not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'points_out_of_range', 'p_points must be 1 to 1000');
  elsif p_from >= p_to or not isfinite(p_from) or not isfinite(p_to) then
    perform jobforge.refuse('JF001', 'range_empty', 'p_from must lie before p_to');
  end if;
end
$$;
comment on function jobforge.require_series(text, timestamptz, timestamptz, integer) is 'Refuses curves that cannot be drawn.';
grant execute on function jobforge.require_series(text, timestamptz, timestamptz, integer) to jf_fn;
