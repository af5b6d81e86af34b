-- owner: jf_sys
-- Claiming under limits: tenants, types and keys that have one, job by job, into free slots only.

create or replace function jobforge.gate(p_queues text[], p_types text[], p_now timestamptz) returns jobforge.claim_gate
language plpgsql volatile
as $$
declare
  v_gate jobforge.claim_gate;
  v_type record;
begin
  v_gate.queues := array(select q from unnest(p_queues) with ordinality as u(q, o)
                         where not jobforge.is_paused('queue', q, p_now) order by o);
  v_gate.types := array(select y from unnest(p_types) with ordinality as u(y, o)
                        where not jobforge.is_paused('definition', y, p_now) order by o);
  v_gate.limited_types := '{}';
  v_gate.rooms := '{}';
  for v_type in
    select d.key, r.room, r.retry_at
    from unnest(v_gate.types) as y(type) join jobforge.definitions d on d.key = y.type
    cross join lateral jobforge.limit_room('definition', d.key, d.max_in_flight, d.rate_per_second, d.rate_burst, p_now) as r
    where d.max_in_flight is not null or d.rate_per_second is not null
  loop
    -- A type without room is not looked at: its tenants would only stand in the way of the others.
    if v_type.room > 0 then
      v_gate.limited_types := v_gate.limited_types || v_type.key;
    else
      v_gate.types := array_remove(v_gate.types, v_type.key);
      v_gate.rooms := v_gate.rooms || jsonb_build_object('full', true, 'retry_at',
        least((v_gate.rooms ->> 'retry_at')::timestamptz, v_type.retry_at));
    end if;
  end loop;
  v_gate.keyed := exists (
    select from unnest(v_gate.queues) as q(queue) cross join unnest(v_gate.types) as y(type)
    cross join lateral (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2
                        and j.keyed limit 1) as k);
  v_gate.held := exists (select from jobforge.pauses p where p.kind = 'tenant')
    or exists (select from jobforge.tenants t where t.max_in_flight is not null or t.rate_per_second is not null);
  v_gate.weighted := exists (select from jobforge.tenants t where t.weight <> 1);
  return v_gate;
end
$$;
comment on function jobforge.gate(text[], text[], timestamptz) is
  'The lanes that no pause and no full limit closes, and whether tenants are held, weighted, or have jobs with keys.';

create or replace function jobforge.pick_limited(
  p_gate jobforge.claim_gate, p_turn jobforge.claim_turn, p_limit integer, p_now timestamptz,
  out places tid[], out tenant_ids uuid[], out job_ids uuid[], out quanta integer[], out hungry uuid[], out rooms jsonb)
language plpgsql volatile
as $$
declare
  v_tenant uuid;
  v_limited boolean;
  i integer;
  v_most integer;
  v_job record;
  v_place tid;
  v_admitted record;
begin
  places := '{}'; tenant_ids := '{}'; job_ids := '{}'; hungry := '{}'; quanta := p_turn.quanta; rooms := p_gate.rooms;
  for v_tenant, v_limited, i in select c.tenant_id, c.limited, c.at from jobforge.concerned(p_gate, p_turn.tenants) as c loop
    v_most := least(quanta[i], p_limit - cardinality(places));
    for v_job in select * from jobforge.limited_jobs(p_gate, v_tenant, v_limited, v_most) where v_most > 0 loop
      v_admitted := jobforge.admit(rooms, v_tenant, v_job.type, v_job.key, p_now);
      rooms := v_admitted.p_rooms;
      exit when v_admitted.hindrance = 'tenant';
      continue when v_admitted.hindrance is not null;
      select j.ctid into v_place from jobforge.jobs j
      where j.ctid = v_job.place and j.ready and j.lease_id is null and j.tenant_id = v_tenant and j.id = v_job.id
      for no key update skip locked;
      if not found then -- somebody else's: its places are free again
        rooms := jobforge.give_room_back(rooms, v_tenant, v_job.type, v_job.key);
        continue;
      end if;
      places := places || v_place;
      tenant_ids := tenant_ids || v_tenant;
      job_ids := job_ids || v_job.id;
      quanta[i] := quanta[i] - 1;
      v_most := v_most - 1;
      exit when v_most = 0;
    end loop;
    -- Whoever could have taken more than its share: not who met the end of the free slots.
    if p_turn.quanta[i] > 0 and quanta[i] = 0 and cardinality(places) < p_limit then
      hungry := hungry || v_tenant;
    end if;
    -- All work of a limited tenant comes this way.
    if v_limited then
      quanta[i] := 0;
    end if;
  end loop;
end
$$;
comment on function jobforge.pick_limited(jobforge.claim_gate, jobforge.claim_turn, integer, timestamptz) is
  'Locks jobs that limits concern, as many as these let start, each tenant up to its quantum; tells what is left of the quanta, '
  'and who took all of it.';

create or replace function jobforge.concerned(p_gate jobforge.claim_gate, p_tenants uuid[])
returns table (tenant_id uuid, limited boolean, at integer)
language sql volatile
as $$
  -- One statement for a turn: whom no limit concerns is not looked at one by one.
  select u.id, u.limited, u.o::integer
  from (
    select n.id, n.o, exists (
      select from jobforge.tenants t
      where t.id = n.id and (t.max_in_flight is not null or t.rate_per_second is not null)) as limited
    from unnest(p_tenants) with ordinality as n(id, o)) as u
  where u.limited
    or exists (
      select from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.limited_types) as y(type)
      cross join lateral (
        select from jobforge.jobs j
        where j.queue = q.queue and j.type = y.type and j.tenant_id = u.id and j.ready and j.lease_id is null
          and j.deaths < 2 and j.priority >= 10 and not j.keyed limit 1) as w)
    or (p_gate.keyed and exists (
      select from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
      cross join lateral (
        select from jobforge.jobs j
        where j.queue = q.queue and j.type = y.type and j.tenant_id = u.id and j.ready and j.deaths < 2 and j.keyed limit 1) as w))
  order by u.o
$$;
comment on function jobforge.concerned(jobforge.claim_gate, uuid[]) is
  'The tenants of a turn with work that limits concern, and whether all of it is, with their places in the turn.';

create or replace function jobforge.limited_jobs(
  p_gate jobforge.claim_gate, p_tenant_id uuid, p_limited boolean, p_most integer)
returns table (place tid, id uuid, type text, key text)
language sql volatile
as $$
  select c.place, c.id, c.type, c.key
  from (
    select h.*
    from unnest(p_gate.queues) as q(queue)
    -- Of a tenant without a limit only what its type or its key limits.
    cross join unnest(case when p_limited then p_gate.types else p_gate.limited_types end) as y(type)
    cross join lateral (
      select j.ctid as place, j.id, j.type, null::text as key, j.priority, j.run_at from jobforge.jobs j
      where j.queue = q.queue and j.type = y.type and j.tenant_id = p_tenant_id and j.ready and j.lease_id is null
        and j.deaths < 2 and j.priority >= 10 and not j.keyed
      -- Some more than wanted: others may hold the first.
      order by j.priority, j.run_at, j.id limit p_most + 32) as h
    union all
    select h.place, h.id, y.type, h.key, h.priority, h.run_at
    from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
    cross join lateral jobforge.keyed_jobs(q.queue, y.type, p_tenant_id) as h
    where p_gate.keyed
  ) as c
  order by c.priority, c.run_at, c.id
$$;
comment on function jobforge.limited_jobs(jobforge.claim_gate, uuid, boolean, integer) is
  'A tenant''s ready jobs that a limit concerns, the most urgent first.';

create or replace function jobforge.keyed_jobs(p_queue text, p_type text, p_tenant_id uuid)
returns table (place tid, id uuid, key text, priority smallint, run_at timestamptz)
language plpgsql volatile
as $$
declare
  v_after text := (select t.after_key from jobforge.key_turns t
                   where t.queue = p_queue and t.type = p_type and t.tenant_id = p_tenant_id);
  v_most integer := coalesce((select d.max_in_flight_per_key from jobforge.definitions d where d.key = p_type), 1);
  v_keys text[] := array(select * from jobforge.next_keys(p_queue, p_type, p_tenant_id, v_after, 100));
begin
  if v_after is not null and cardinality(v_keys) < 100 then
    v_keys := v_keys || array(
      select k from jobforge.next_keys(p_queue, p_type, p_tenant_id, null, 100 - cardinality(v_keys)) as k
      where k <= v_after);
  end if;
  if cardinality(v_keys) = 100 and pg_try_advisory_xact_lock(
      hashtextextended('jobforge keys ' || p_queue || ' ' || p_type || ' ' || p_tenant_id, 0)) then
    insert into jobforge.key_turns as t (queue, type, tenant_id, after_key) values (p_queue, p_type, p_tenant_id, v_keys[100])
    on conflict (queue, type, tenant_id) do update set after_key = excluded.after_key;
  end if;
  return query
  select h.ctid, h.id, k.key, h.priority, h.run_at
  from unnest(v_keys) as k(key)
  cross join lateral (
    select j.ctid, j.id, j.priority, j.run_at from jobforge.jobs j
    where j.queue = p_queue and j.type = p_type and j.tenant_id = p_tenant_id and j.concurrency_key = k.key and j.ready
      and j.deaths < 2 and j.keyed
    order by j.priority, j.run_at, j.id
    limit greatest(v_most - jobforge.runs_of('key', p_tenant_id || '/' || k.key), 0)) as h;
end
$$;
comment on function jobforge.keyed_jobs(text, text, uuid) is
  'The first jobs of each key that has room, of a hundred keys at a time, going round.';

create or replace function jobforge.next_keys(p_queue text, p_type text, p_tenant_id uuid, p_after text, p_most integer)
returns setof text
language sql stable
as $$
  with recursive keys as (
    select p_after as key, 0 as n
    union all
    select f.concurrency_key, k.n + 1
    from keys k
    cross join lateral (
      select j.concurrency_key from jobforge.jobs j
      where j.queue = p_queue and j.type = p_type and j.tenant_id = p_tenant_id and j.ready and j.deaths < 2 and j.keyed
        and j.concurrency_key > coalesce(k.key, '')
      order by j.concurrency_key limit 1) as f
    where k.n < p_most
  )
  select k.key from keys k where k.n > 0
$$;
comment on function jobforge.next_keys(text, text, uuid, text, integer) is
  'Up to p_most keys after p_after that have ready jobs, by a skip-scan of jobs_keyed.';
