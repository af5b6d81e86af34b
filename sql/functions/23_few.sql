-- owner: jf_sys
-- Few jobs: one look tells what a claim is in for. Where it can take all that is ready, nobody's turn has to be found.

create or replace function jobforge.survey(
  p_queues text[], p_types text[], p_most integer, p_now timestamptz,
  out timeouts integer[], out due boolean, out apart boolean, out gated boolean, out ready integer)
language plpgsql volatile
as $$
begin
  -- One statement: where jobs come one at a time, each statement of a claim finds cold caches and costs more than its rows.
  select
    array(select (select d.timeout_seconds from jobforge.definitions d where d.key = y.type) from unnest(p_types) as y(type)),
    (select f.run_at from jobforge.jobs f where f.status = 'queued' and not f.ready and f.run_at <= p_now
     order by f.run_at limit 1) is not null,
    exists (select from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
            cross join lateral (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready
                                and (j.deaths >= 2 or (j.priority < 10 and not j.keyed)) limit 1) as a),
    exists (select from jobforge.pauses)
      or exists (select from jobforge.tenants t where t.max_in_flight is not null or t.rate_per_second is not null)
      or exists (select from jobforge.tenants t where t.weight <> 1)
      or exists (select from unnest(p_types) as y(type) join jobforge.definitions d on d.key = y.type
                 where d.max_in_flight is not null or d.rate_per_second is not null)
      or exists (select from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
                 cross join lateral (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready
                                     and j.deaths < 2 and j.keyed limit 1) as k),
    (select count(*) from (
      select from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
      cross join lateral (
        select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2
          and j.priority >= 10 and not j.keyed
        order by j.tenant_id, j.priority, j.run_at, j.id limit p_most) as w
      limit p_most) as r)
  into timeouts, due, apart, gated, ready;
end
$$;
comment on function jobforge.survey(text[], text[], integer, timestamptz) is
  'The types'' timeouts; whether anything is due, stands apart, is paused, weighted or under a limit; and how many jobs are '
  'ready, counted up to p_most.';

create or replace function jobforge.pick_few(
  p_queues text[], p_types text[], p_after uuid, p_limit integer,
  out places tid[], out tenant_ids uuid[], out job_ids uuid[])
language plpgsql volatile
as $$
begin
  select array_agg(x.ctid), array_agg(x.tenant_id), array_agg(x.id) into places, tenant_ids, job_ids
  from (
    select a.ctid, a.tenant_id, a.id
    from (
      select w.ctid, w.tenant_id, w.priority, w.run_at, w.id
      from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
      cross join lateral (
        select j.ctid, j.tenant_id, j.priority, j.run_at, j.id from jobforge.jobs j
        where j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2 and j.priority >= 10 and not j.keyed
        order by j.tenant_id, j.priority, j.run_at, j.id limit p_limit
        for no key update skip locked) as w
      limit p_limit) as a
    order by a.tenant_id <= p_after, a.tenant_id, a.priority, a.run_at, a.id) as x;
end
$$;
comment on function jobforge.pick_few(text[], text[], uuid, integer) is
  'Locks all that is ready, p_limit at most, in the order of a turn: tenants after p_after first, each by priority, run_at, id.';
