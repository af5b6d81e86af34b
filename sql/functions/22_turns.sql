-- owner: jf_sys
-- Whose turn it is: a skip-scan over the tenants with ready work, from where the last claim stopped.

create or replace function jobforge.take_turns(
  p_queues text[], p_types text[], p_bound uuid, p_after uuid, p_limit integer, p_marks jobforge.claim_mark[],
  p_now timestamptz, out tenants uuid[], out turn uuid, out seen boolean, out everybody boolean)
language plpgsql volatile
as $$
declare
  v_most integer := least(p_limit, 64);
  v_after uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
  v_free uuid[];
  v_held boolean := exists (select from jobforge.pauses p where p.kind = 'tenant');
begin
  seen := false;
  everybody := true;
  if p_bound is not null then
    tenants := array(select p_bound where not jobforge.is_paused('tenant', p_bound::text, p_now));
    return;
  end if;

  -- Where few tenants wait, one scan finds them all, and the turn is only a matter of order.
  tenants := array(select n from jobforge.next_tenants(p_queues, p_types, null, v_most, p_marks) as n);
  if p_after is not null and cardinality(tenants) < v_most then
    tenants := array(select n from unnest(tenants) as n order by n <= p_after, n);
  elsif p_after is not null then
    tenants := array(select n from jobforge.next_tenants(p_queues, p_types, p_after, v_most, p_marks) as n);
    tenants := tenants || array(
      select n from jobforge.next_tenants(p_queues, p_types, null, v_most - cardinality(tenants), p_marks) as n
      where n <= p_after);
  end if;
  everybody := cardinality(tenants) < v_most;
  seen := cardinality(tenants) > 0;
  -- Where everybody comes, the next claim begins one further, so that what is left over goes round.
  turn := tenants[case when everybody then 1 else cardinality(tenants) end];
  if not v_held then
    return;
  end if;

  tenants := array(select u.n from unnest(tenants) with ordinality as u(n, o) where not jobforge.is_paused('tenant', u.n::text, p_now) order by u.o);
  seen := cardinality(tenants) > 0;
  if everybody or cardinality(tenants) * 2 >= v_most then
    return;
  end if;
  -- Held tenants stand in the way: go by the list of those that are free, too.
  perform jobforge.refresh_candidates(p_queues, p_types, p_now);
  v_free := array(
    select distinct on (c.tenant_id <= v_after, c.tenant_id) c.tenant_id from jobforge.turn_candidates c
    where c.queue = any (p_queues) and c.type = any (p_types) and c.tenant_id <> all (tenants) and not jobforge.is_paused('tenant', c.tenant_id::text, p_now)
    order by c.tenant_id <= v_after, c.tenant_id limit v_most - cardinality(tenants));
  everybody := cardinality(tenants) + cardinality(v_free) < v_most;
  turn := coalesce(v_free[cardinality(v_free)], turn);
  tenants := tenants || v_free;
end
$$;
comment on function jobforge.take_turns(text[], text[], uuid, uuid, integer, jobforge.claim_mark[], timestamptz) is
  'The tenants whose turn it is, at most 64, the one to go on after, whether any ready work was seen, and '
  'whether these are all.';

create or replace function jobforge.next_tenants(
  p_queues text[], p_types text[], p_after uuid, p_most integer, p_marks jobforge.claim_mark[])
returns setof uuid
language sql stable
as $$
  -- `edge` makes the first step from null include the system's tenant, whose id is the smallest there is.
  with recursive turn as (
    select coalesce(p_after, '00000000-0000-0000-0000-000000000000') as tenant_id,
      (case when p_after is null then 0 else 32767 end)::smallint as edge, 0 as n
    union all
    select coalesce(f.tenant_id, k.tenant_id), 32767::smallint, t.n + 1
    from turn t
    -- A tenant with a remembered position is in the turn without a look: the look would walk what it has behind it.
    left join lateral (
      select m.tenant_id from unnest(p_marks) as m where (m.tenant_id, m.priority) > (t.tenant_id, t.edge)
      order by m.tenant_id limit 1) as k on true
    left join lateral (
      select w.tenant_id
      from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
      cross join lateral (
        select j.tenant_id from jobforge.jobs j
        where j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2 and j.priority >= 10 and not j.keyed
          and (j.tenant_id, j.priority) > (t.tenant_id, t.edge)
          and j.tenant_id < coalesce(k.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by j.tenant_id, j.priority limit 1) as w
      order by w.tenant_id limit 1) as f on true
    where t.tenant_id is not null and t.n < p_most
  )
  select t.tenant_id from turn t where t.tenant_id is not null and t.n > 0
$$;
comment on function jobforge.next_tenants(text[], text[], uuid, integer, jobforge.claim_mark[]) is
  'Up to p_most tenants after p_after that have ready work in these lanes, in order, by a skip-scan of jobs_turn.';

create or replace function jobforge.refresh_candidates(p_queues text[], p_types text[], p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_lane record;
begin
  for v_lane in
    select q.queue, y.type from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
    where not exists (select from jobforge.turn_refreshes r
                      where r.queue = q.queue and r.type = y.type and r.refreshed_at > p_now - interval '1 second')
  loop
    continue when not pg_try_advisory_xact_lock(hashtextextended('jobforge turn ' || v_lane.queue || ' ' || v_lane.type, 0));
    delete from jobforge.turn_candidates c where c.queue = v_lane.queue and c.type = v_lane.type;
    insert into jobforge.turn_candidates (queue, type, tenant_id)
    select v_lane.queue, v_lane.type, n
    from jobforge.next_tenants(array[v_lane.queue], array[v_lane.type], null, 1000000, null) as n
    where not jobforge.is_paused('tenant', n::text, p_now);
    insert into jobforge.turn_refreshes (queue, type, refreshed_at) values (v_lane.queue, v_lane.type, p_now)
    on conflict (queue, type) do update set refreshed_at = excluded.refreshed_at;
  end loop;
end
$$;
comment on function jobforge.refresh_candidates(text[], text[], timestamptz) is
  'Lists anew, at most once a second and by one caller at a time, the tenants with ready work that nothing holds back.';
