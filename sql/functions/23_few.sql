-- owner: jf_sys
-- Few jobs: one look tells what a claim is in for. Where it can take all that is ready, nobody's turn has to be found.

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
