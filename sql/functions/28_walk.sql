-- owner: jf_sys
-- The walk over one lane or several, and from where it starts in each.

create or replace function jobforge.pick_turn(
  p_gate jobforge.claim_gate, p_turn jobforge.claim_turn, p_limit integer, p_marks jobforge.claim_mark[],
  out places tid[], out tenant_ids uuid[], out job_ids uuid[], out hungry uuid[])
language plpgsql volatile
as $$
declare
  v_types text[] := p_gate.types;
begin
  if cardinality(p_gate.limited_types) > 0 then
    v_types := array(select y from unnest(p_gate.types) as y where y <> all (p_gate.limited_types));
  end if;
  if cardinality(p_gate.queues) = 1 and cardinality(v_types) = 1 then
    select array_agg(x.ctid), array_agg(x.tenant_id), array_agg(x.id) into places, tenant_ids, job_ids
    from (
      select w.ctid, t.tenant_id, w.id
      from unnest(p_turn.tenants, p_turn.quanta) as t(tenant_id, quantum)
      cross join lateral (
        select b.ctid, b.id
        from jobforge.walk_ranges(p_marks, p_gate.queues[1], v_types[1], t.tenant_id) as r
        cross join lateral (
          select j.ctid, j.id from jobforge.jobs j
          where j.queue = p_gate.queues[1] and j.type = v_types[1] and j.tenant_id = t.tenant_id
            and (j.priority, j.run_at, j.id) > (r.priority, r.run_at, r.id) and j.priority <= r.through
            and j.ready and j.lease_id is null and j.deaths < 2 and j.priority >= 10 and not j.keyed
          order by j.priority, j.run_at, j.id limit t.quantum
          for no key update skip locked) as b
        limit t.quantum) as w
      limit p_limit) as x;
  else
    select array_agg(x.ctid), array_agg(x.tenant_id), array_agg(x.id) into places, tenant_ids, job_ids
    from jobforge.pick_lanes(p_gate.queues, v_types, p_turn, p_limit, p_marks) as x;
  end if;
  if cardinality(places) = p_limit then
    return; -- nothing is left to share out
  end if;
  hungry := array(
    select t.tenant_id from unnest(p_turn.tenants, p_turn.quanta) with ordinality as t(tenant_id, quantum, o)
    left join (select u.id, count(*) as jobs from unnest(tenant_ids) as u(id) group by u.id) as g on g.id = t.tenant_id
    where t.tenant_id = any (p_turn.hungry) or (t.quantum > 0 and t.quantum <= g.jobs)
    order by t.o);
end
$$;
comment on function jobforge.pick_turn(jobforge.claim_gate, jobforge.claim_turn, integer, jobforge.claim_mark[]) is
  'Locks jobs of each tenant up to its quantum, p_limit in all, in the tenants'' order; hungry are those that took all of theirs.';

create or replace function jobforge.pick_lanes(
  p_queues text[], p_types text[], p_turn jobforge.claim_turn, p_limit integer, p_marks jobforge.claim_mark[])
returns table (ctid tid, tenant_id uuid, id uuid)
language sql volatile
as $$
  -- Each lane's share is what it has among the tenant's first jobs over all lanes; only that many are locked.
  select x.ctid, x.tenant_id, x.id
  from (
    select t.turn, w.ctid, t.tenant_id, w.priority, w.run_at, w.id
    from unnest(p_turn.tenants, p_turn.quanta) with ordinality as t(tenant_id, quantum, turn)
    cross join lateral (
      select h.queue, h.type, count(*) as jobs
      from (
        select q.queue, y.type, f.priority, f.run_at, f.id
        from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
        cross join lateral (
          select b.priority, b.run_at, b.id
          from jobforge.walk_ranges(p_marks, q.queue, y.type, t.tenant_id) as r
          cross join lateral (
            select j.priority, j.run_at, j.id from jobforge.jobs j
            where j.queue = q.queue and j.type = y.type and j.tenant_id = t.tenant_id
              and (j.priority, j.run_at, j.id) > (r.priority, r.run_at, r.id) and j.priority <= r.through
              and j.ready and j.lease_id is null and j.deaths < 2 and j.priority >= 10 and not j.keyed
            order by j.priority, j.run_at, j.id limit t.quantum) as b
          limit t.quantum) as f
        order by f.priority, f.run_at, f.id limit t.quantum) as h
      group by h.queue, h.type) as s
    cross join lateral (
      select b.ctid, b.priority, b.run_at, b.id
      from jobforge.walk_ranges(p_marks, s.queue, s.type, t.tenant_id) as r
      cross join lateral (
        select j.ctid, j.priority, j.run_at, j.id from jobforge.jobs j
        where j.queue = s.queue and j.type = s.type and j.tenant_id = t.tenant_id
          and (j.priority, j.run_at, j.id) > (r.priority, r.run_at, r.id) and j.priority <= r.through
          and j.ready and j.lease_id is null and j.deaths < 2 and j.priority >= 10 and not j.keyed
        order by j.priority, j.run_at, j.id limit s.jobs
        for no key update skip locked) as b
      limit s.jobs) as w
    limit p_limit) as x
  order by x.turn, x.priority, x.run_at, x.id
$$;
comment on function jobforge.pick_lanes(text[], text[], jobforge.claim_turn, integer, jobforge.claim_mark[]) is
  'pick_turn over several lanes: the heads of a tenant''s types and queues merged by priority, run_at, id.';

create or replace function jobforge.walk_ranges(p_marks jobforge.claim_mark[], p_queue text, p_type text, p_tenant_id uuid)
returns table (priority smallint, run_at timestamptz, id uuid, through integer)
language sql immutable rows 1
as $$
  select m.priority, m.run_at, m.id, coalesce(lead(m.priority) over (order by m.priority) - 1, 32767)
  from (
    select 9::smallint, 'infinity'::timestamptz, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
    union all
    select k.priority, k.run_at, k.id from unnest(p_marks) as k
    where k.queue = p_queue and k.type = p_type and k.tenant_id = p_tenant_id
  ) as m(priority, run_at, id)
$$;
comment on function jobforge.walk_ranges(jobforge.claim_mark[], text, text, uuid) is
  'The stretches of a tenant''s lane that are not behind a remembered position, in the lane''s order.';
