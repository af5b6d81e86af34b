-- owner: jf_sys
-- Whose turn it is: a skip-scan over the tenants with ready work, from where the last claim stopped.

create or replace function jobforge.take_turns(
  p_gate jobforge.claim_gate, p_bound uuid, p_turn jobforge.claim_turn, p_limit integer, p_marks jobforge.claim_mark[],
  p_now timestamptz)
returns jobforge.claim_turn
language plpgsql volatile
as $$
declare
  v_turn jobforge.claim_turn := p_turn;
  -- About 64, and so many more that shares without a fraction use the claim up. A small claim looks at fewer, until that was
  -- not enough where some are held.
  v_most integer := greatest(ceil(p_limit::numeric / greatest(p_limit / 64, 1)),
    case when p_gate.held and p_turn.listed is not null then 64 else 0 end);
  v_owed boolean := coalesce(p_turn.owed > 0, false);
  v_tenants uuid[];
  v_free uuid[];
begin
  v_turn.rooms := '{}';
  -- Where most tenants were held a moment ago, those listed as free come first; a claim that they do not fill looks for itself.
  v_turn.listed := p_gate.held and p_bound is null and p_turn.listed is null and jobforge.list_is_fresh(p_gate, p_now);
  if p_bound is not null then
    v_turn.tenants := array[p_bound];
  elsif v_turn.listed then
    v_turn.tenants := jobforge.free_tenants(p_gate, p_turn.at, '{}', v_most, p_now);
  else
    v_turn.tenants := array(select n from jobforge.next_tenants(p_gate, p_turn.at, v_owed, v_most, p_marks) as n);
    if p_turn.at is not null and cardinality(v_turn.tenants) < v_most then
      v_turn.tenants := v_turn.tenants || array(
        select n from jobforge.next_tenants(p_gate, null, false, v_most - cardinality(v_turn.tenants), p_marks) as n
        where n < p_turn.at or (n = p_turn.at and not v_owed));
    end if;
  end if;
  v_turn.everybody := p_bound is not null or cardinality(v_turn.tenants) < v_most;
  if p_gate.held and not v_turn.listed then
    v_tenants := v_turn.tenants;
    select coalesce(array_agg(u.n order by u.o) filter (where r.room > 0), '{}'),
      case when bool_or(r.room = 0) then jsonb_build_object('full', true, 'retry_at', min(r.retry_at)) else '{}' end
    into v_turn.tenants, v_turn.rooms
    from unnest(v_tenants) with ordinality as u(n, o)
    cross join lateral (
      select h.room, h.retry_at from jobforge.tenant_room(u.n, p_now) as h
      where exists (select from jobforge.pauses p where p.kind = 'tenant' and p.name = u.n::text)
        or exists (select from jobforge.tenants t
                   where t.id = u.n and (t.max_in_flight is not null or t.rate_per_second is not null))
      union all
      select 1000000, null limit 1) as r;
    if not v_turn.everybody and v_most >= 64 and cardinality(v_turn.tenants) * 2 < v_most then
      -- Held tenants stand in the way: go by the list of those that are free, too. What came free since it was made is
      -- missed for a second at most, so a few that are held are no reason for it.
      perform jobforge.refresh_candidates(p_gate, p_now);
      v_free := jobforge.free_tenants(p_gate, p_turn.at, v_turn.tenants, v_most - cardinality(v_turn.tenants), p_now);
      v_turn.everybody := cardinality(v_turn.tenants) + cardinality(v_free) < v_most;
      v_turn.tenants := v_turn.tenants || v_free;
      v_turn.at := coalesce(v_free[cardinality(v_free)], v_tenants[cardinality(v_tenants)]);
    end if;
  end if;
  v_turn.seen := cardinality(v_turn.tenants) > 0;
  if v_turn.seen then
    v_turn := jobforge.share_out(v_turn, p_gate.weighted, p_limit);
  end if;
  return v_turn;
end
$$;
comment on function jobforge.take_turns(jobforge.claim_gate, uuid, jobforge.claim_turn, integer, jobforge.claim_mark[], timestamptz) is
  'The tenants whose turn it is, about 64, each with its share, whether these are all, and at whom the next claim begins.';

create or replace function jobforge.free_tenants(
  p_gate jobforge.claim_gate, p_after uuid, p_but uuid[], p_most integer, p_now timestamptz) returns uuid[]
language plpgsql volatile
as $$
declare
  v_after uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  return array(
    select distinct on (c.tenant_id <= v_after, c.tenant_id) c.tenant_id from jobforge.turn_candidates c
    where c.queue = any (p_gate.queues) and c.type = any (p_gate.types) and c.tenant_id <> all (p_but)
      and (select r.room from jobforge.tenant_room(c.tenant_id, p_now) as r) > 0
    order by c.tenant_id <= v_after, c.tenant_id limit p_most);
end
$$;
comment on function jobforge.free_tenants(jobforge.claim_gate, uuid, uuid[], integer, timestamptz) is
  'Tenants out of the list of those that nothing holds back, in the order of their turn.';

create or replace function jobforge.tenant_room(p_tenant_id uuid, p_now timestamptz, out room integer, out retry_at timestamptz)
language plpgsql volatile
as $$
begin
  room := 1000000;
  if jobforge.is_paused('tenant', p_tenant_id::text, p_now) then
    room := 0;
    return;
  end if;
  select r.room, r.retry_at into room, retry_at
  from jobforge.limits_of(p_tenant_id, null, null) as l
  cross join lateral jobforge.limit_room(l.kind, l.name, l.most, l.rate, l.burst, p_now) as r;
  room := coalesce(room, 1000000);
end
$$;
comment on function jobforge.tenant_room(uuid, timestamptz) is
  'How many jobs of a tenant its pause and its limits let start, seen without a lock: a claim asks again before it takes.';

create or replace function jobforge.next_tenants(
  p_gate jobforge.claim_gate, p_after uuid, p_inclusive boolean, p_most integer, p_marks jobforge.claim_mark[])
returns setof uuid
language sql stable
as $$
  -- `edge` makes the first step from null include the system's tenant, whose id is the smallest there is.
  with recursive turn as (
    select coalesce(p_after, '00000000-0000-0000-0000-000000000000') as tenant_id,
      (case when p_after is null or p_inclusive then -1 else 32767 end)::smallint as edge, 0 as n
    union all
    select coalesce(f.tenant_id, k.tenant_id), 32767::smallint, t.n + 1
    from turn t
    -- A tenant with a remembered position is in the turn without a look: the look would walk what it has behind it.
    left join lateral (
      select m.tenant_id from unnest(p_marks) as m where (m.tenant_id, m.priority) > (t.tenant_id, t.edge)
      order by m.tenant_id limit 1) as k on true
    left join lateral (
      select w.tenant_id
      from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
      cross join lateral (
        (select j.tenant_id from jobforge.jobs j
         where j.queue = q.queue and j.type = y.type and j.ready and j.lease_id is null and j.deaths < 2
           and j.priority >= 10 and not j.keyed
           and (j.tenant_id, j.priority) > (t.tenant_id, t.edge)
           and j.tenant_id < coalesce(k.tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
         order by j.tenant_id, j.priority limit 1)
        union all
        (select j.tenant_id from jobforge.jobs j
         where p_gate.keyed and t.edge > 0 and j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2 and j.keyed
           and j.tenant_id > t.tenant_id
         order by j.tenant_id limit 1)
        union all
        (select j.tenant_id from jobforge.jobs j
         where p_gate.keyed and t.edge < 0 and j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2 and j.keyed
           and j.tenant_id >= t.tenant_id
         order by j.tenant_id limit 1)) as w
      where k.tenant_id is null or w.tenant_id < k.tenant_id
      order by w.tenant_id limit 1) as f on true
    where t.tenant_id is not null and t.n < p_most
  )
  select t.tenant_id from turn t where t.tenant_id is not null and t.n > 0
$$;
comment on function jobforge.next_tenants(jobforge.claim_gate, uuid, boolean, integer, jobforge.claim_mark[]) is
  'Up to p_most tenants after p_after (or from it on) that have ready work in these lanes, in order, by skip-scans.';

create or replace function jobforge.list_is_fresh(p_gate jobforge.claim_gate, p_now timestamptz) returns boolean
language sql stable
as $$
  select not exists (
    select from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
    where not exists (select from jobforge.turn_refreshes r
                      where r.queue = q.queue and r.type = y.type and r.refreshed_at > p_now - interval '1 second'))
$$;
comment on function jobforge.list_is_fresh(jobforge.claim_gate, timestamptz) is
  'Whether the free tenants of all these lanes were listed within the last second.';

create or replace function jobforge.lane_tenants(p_queue text, p_type text) returns setof uuid
language sql stable
as $$
  -- next_tenants for one lane and all its tenants: half the steps' cost where they are thousands.
  with recursive plain as (
    select (select j.tenant_id from jobforge.jobs j
            where j.queue = p_queue and j.type = p_type and j.ready and j.lease_id is null and j.deaths < 2
              and j.priority >= 10 and not j.keyed
            order by j.tenant_id, j.priority limit 1) as tenant_id
    union all
    select (select j.tenant_id from jobforge.jobs j
            where j.queue = p_queue and j.type = p_type and j.ready and j.lease_id is null and j.deaths < 2
              and j.priority >= 10 and not j.keyed
              and (j.tenant_id, j.priority) > (t.tenant_id, 32767::smallint)
            order by j.tenant_id, j.priority limit 1)
    from plain t where t.tenant_id is not null
  ), keyed as (
    select (select j.tenant_id from jobforge.jobs j
            where j.queue = p_queue and j.type = p_type and j.ready and j.deaths < 2 and j.keyed
            order by j.tenant_id limit 1) as tenant_id
    union all
    select (select j.tenant_id from jobforge.jobs j
            where j.queue = p_queue and j.type = p_type and j.ready and j.deaths < 2 and j.keyed and j.tenant_id > t.tenant_id
            order by j.tenant_id limit 1)
    from keyed t where t.tenant_id is not null
  )
  select p.tenant_id from plain p where p.tenant_id is not null
  union
  select k.tenant_id from keyed k where k.tenant_id is not null
$$;
comment on function jobforge.lane_tenants(text, text) is 'All tenants with ready work in a lane, by skip-scans.';

create or replace function jobforge.refresh_candidates(p_gate jobforge.claim_gate, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_lane record;
  v_begun timestamptz;
begin
  for v_lane in
    select q.queue, y.type from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
    where not exists (select from jobforge.turn_refreshes r
                      where r.queue = q.queue and r.type = y.type and r.refreshed_at > p_now - interval '1 second')
  loop
    continue when not pg_try_advisory_xact_lock(hashtextextended('jobforge turn ' || v_lane.queue || ' ' || v_lane.type, 0));
    v_begun := clock_timestamp();
    delete from jobforge.turn_candidates c where c.queue = v_lane.queue and c.type = v_lane.type;
    insert into jobforge.turn_candidates (queue, type, tenant_id)
    select v_lane.queue, v_lane.type, n
    from jobforge.lane_tenants(v_lane.queue, v_lane.type) as n
    -- One statement for all of them; those with a limit alone are counted one by one.
    where not exists (select from jobforge.pauses p where p.kind = 'tenant' and p.name = n::text
                      and (p.until is null or p.until > p_now))
      and not exists (
        select from jobforge.tenants t
        where t.id = n and (t.max_in_flight <= (
            select count(*) from jobforge.limited_runs r
            where r.kind = 'tenant' and r.name = n::text and exists (
              select from jobforge.jobs j
              where j.tenant_id = r.tenant_id and j.id = r.job_id and j.lease_id = r.lease_id and j.fence = r.fence))
          or (t.rate_per_second is not null
              and jobforge.tokens('tenant', n::text, t.rate_per_second, t.rate_burst, p_now) < 1)));
    -- A list that takes long is made less often: the claims that make it shall not spend a twentieth of their time on it.
    insert into jobforge.turn_refreshes (queue, type, refreshed_at)
    values (v_lane.queue, v_lane.type, p_now + greatest(20 * (clock_timestamp() - v_begun) - interval '1 second', interval '0'))
    on conflict (queue, type) do update set refreshed_at = excluded.refreshed_at;
  end loop;
end
$$;
comment on function jobforge.refresh_candidates(jobforge.claim_gate, timestamptz) is
  'Lists anew, at most once a second and by one caller at a time, the tenants with ready work that nothing holds back.';
