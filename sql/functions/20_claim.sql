-- owner: jf_sys
-- Claim: reserved work first, then tenants in turn, each by priority, run_at, id. The plan is told in sql/README.md.

create or replace function jobforge.claim_jobs(
  p_worker_id text, p_queues text[], p_types text[], p_limit integer default 1, p_lease_id uuid default null,
  p_lease_seconds integer default 30, p_window integer default null, p_cursor jsonb default null,
  p_new_lease_id uuid default null)
returns setof jobforge.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_session jobforge.leases;
  v_lease jobforge.leases;
  v_view record;
  v_most integer := 0;
  v_marks jobforge.claim_mark[];
  v_stage text := 'turn';
  v_turns record;
  v_turn uuid := (p_cursor ->> 'turn')::uuid;
  v_rounds integer := 8;
  v_seen boolean := false;
  v_everybody boolean := false;
  v_tenants uuid[];
  v_quantum integer;
  v_pick record;
  v_claim bigint;
  v_left integer := p_limit;
  v_solo integer := 0;
begin
  perform jobforge.require_claim(p_worker_id, p_queues, p_types, p_limit, p_cursor);
  v_session := jobforge.hold_lease(p_lease_id, p_new_lease_id, p_worker_id, coalesce(p_window, p_limit), p_lease_seconds, v_now);
  -- A worker of one tenant has few rows to walk, and its sweep would be of no use to the others.
  if v_session.tenant_id is null and jsonb_array_length(p_cursor -> 'marks') > 0 then
    v_marks := jobforge.trusted_marks(p_cursor -> 'marks', p_queues, p_types, v_now);
  elsif v_session.tenant_id is null then
    v_most := least(p_limit, 32) + 1;
  end if;
  v_view := jobforge.survey(p_queues, p_types, v_most, v_now);
  if v_view.due then
    perform jobforge.promote(v_now, 1000);
  end if;
  if v_view.due or v_view.apart then
    v_stage := 'suspect';
  elsif v_view.ready < v_most and not v_view.held then
    v_stage := 'few'; -- all of it can be had
  end if;

  while v_left > 0 loop
    v_lease := v_session;
    if v_stage = 'suspect' then
      v_pick := jobforge.pick_suspect(v_session, p_queues, p_types, v_now);
      if cardinality(v_pick.places) > 0 then
        v_lease := jobforge.solo_lease(v_session, v_now);
        v_solo := 1;
      end if;
      v_stage := 'reserved';
    elsif v_stage = 'reserved' then
      v_pick := jobforge.pick_reserved(v_session, p_queues, p_types, v_left);
      v_stage := 'turn';
    elsif v_stage = 'few' then
      exit when v_view.ready = 0;
      v_pick := jobforge.pick_few(p_queues, p_types, v_turn, v_view.ready);
      v_turn := coalesce(v_pick.tenant_ids[1], v_turn);
      v_seen := true;
      v_everybody := true;
      v_stage := 'turn';
    else
      -- Everybody in the turn gets an equal share. What is left then goes to the next tenants, or, once everybody was
      -- there, to those who took all of their share. Others may hold what a turn had: an answer is not short for that.
      if coalesce(cardinality(v_tenants), 0) = 0 then
        exit when v_everybody or v_rounds = 0;
        v_turns := jobforge.take_turns(p_queues, p_types, v_session.tenant_id, v_turn, v_left, v_marks, v_now);
        v_turn := coalesce(v_turns.turn, v_turn);
        v_seen := v_seen or v_turns.seen;
        v_everybody := v_turns.everybody;
        v_tenants := v_turns.tenants;
        v_rounds := v_rounds - 1;
        continue when cardinality(v_tenants) = 0;
      end if;
      v_quantum := greatest(v_left / cardinality(v_tenants), 1);
      v_pick := jobforge.pick_turn(p_queues, p_types, v_tenants, v_quantum, v_left, v_marks);
      v_tenants := case when v_everybody then v_pick.hungry end;
    end if;
    continue when coalesce(cardinality(v_pick.places), 0) = 0;

    v_claim := nextval('jobforge.claim_numbers');
    insert into jobforge.lease_claims (lease_id, claim_no, tenant_ids, job_ids)
    values (v_lease.id, v_claim, v_pick.tenant_ids, v_pick.job_ids);
    return query
    update jobforge.jobs j
    set status = 'running', ready = false, lease_id = v_lease.id, worker_no = v_lease.worker_no, fence = j.fence + 1,
      started_at = v_now
    from unnest(v_pick.places) as p(place)
    where j.ctid = p.place
    returning v_lease.id, v_lease.expires_at, v_lease.solo, v_claim, j.tenant_id, j.id, j.type, j.queue, j.priority,
      j.run_at, j.fence, j.failures, j.deaths, j.max_attempts, v_view.timeouts[array_position(p_types, j.type)],
      j.correlation_id, j.traceparent, j.payload, j.ctid, null::uuid, false;
    v_left := v_left - cardinality(v_pick.places);
  end loop;

  if p_lease_id is null and v_left + v_solo < p_limit then
    perform jobforge.keep_lease(v_session);
  end if;
  return next row(v_session.id, v_session.expires_at, false, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null, null, null, v_turn, v_left = p_limit and v_seen)::jobforge.claimed;
end
$$;
comment on function jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb, uuid) is
  'Takes up to p_limit jobs onto a lease, in the order in which they shall start. The last row has no id: it tells the '
  'lease''s expiry, the tenant to go on after (turn) and whether there is work that others hold locked (more).';
grant execute on function jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb, uuid) to jf_worker;

create or replace function jobforge.pick_turn(
  p_queues text[], p_types text[], p_tenants uuid[], p_quantum integer, p_limit integer, p_marks jobforge.claim_mark[],
  out places tid[], out tenant_ids uuid[], out job_ids uuid[], out hungry uuid[])
language plpgsql volatile
as $$
begin
  if cardinality(p_queues) = 1 and cardinality(p_types) = 1 then
    select array_agg(x.ctid), array_agg(x.tenant_id), array_agg(x.id) into places, tenant_ids, job_ids
    from (
      select w.ctid, t.tenant_id, w.id
      from unnest(p_tenants) as t(tenant_id)
      cross join lateral (
        select b.ctid, b.id
        from jobforge.walk_ranges(p_marks, p_queues[1], p_types[1], t.tenant_id) as r
        cross join lateral (
          select j.ctid, j.id from jobforge.jobs j
          where j.queue = p_queues[1] and j.type = p_types[1] and j.tenant_id = t.tenant_id
            and (j.priority, j.run_at, j.id) > (r.priority, r.run_at, r.id) and j.priority <= r.through
            and j.ready and j.deaths < 2 and j.priority >= 10
          order by j.priority, j.run_at, j.id limit p_quantum
          for no key update skip locked) as b
        limit p_quantum) as w
      limit p_limit) as x;
  else
    select array_agg(x.ctid), array_agg(x.tenant_id), array_agg(x.id) into places, tenant_ids, job_ids
    from jobforge.pick_lanes(p_queues, p_types, p_tenants, p_quantum, p_limit, p_marks) as x;
  end if;
  if cardinality(places) = p_limit then
    return; -- nothing is left to share out
  end if;
  hungry := array(
    select u.tenant_id from unnest(tenant_ids) with ordinality as u(tenant_id, o)
    group by u.tenant_id having count(*) >= p_quantum order by min(u.o));
end
$$;
comment on function jobforge.pick_turn(text[], text[], uuid[], integer, integer, jobforge.claim_mark[]) is
  'Locks up to p_quantum jobs of each tenant, p_limit in all, in the tenants'' order; hungry are those that took all of theirs.';

create or replace function jobforge.pick_lanes(
  p_queues text[], p_types text[], p_tenants uuid[], p_quantum integer, p_limit integer, p_marks jobforge.claim_mark[])
returns table (ctid tid, tenant_id uuid, id uuid)
language sql volatile
as $$
  -- Each lane's share is what it has among the tenant's first jobs over all lanes; only that many are locked.
  select x.ctid, x.tenant_id, x.id
  from (
    select t.turn, w.ctid, t.tenant_id, w.priority, w.run_at, w.id
    from unnest(p_tenants) with ordinality as t(tenant_id, turn)
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
              and j.ready and j.deaths < 2 and j.priority >= 10
            order by j.priority, j.run_at, j.id limit p_quantum) as b
          limit p_quantum) as f
        order by f.priority, f.run_at, f.id limit p_quantum) as h
      group by h.queue, h.type) as s
    cross join lateral (
      select b.ctid, b.priority, b.run_at, b.id
      from jobforge.walk_ranges(p_marks, s.queue, s.type, t.tenant_id) as r
      cross join lateral (
        select j.ctid, j.priority, j.run_at, j.id from jobforge.jobs j
        where j.queue = s.queue and j.type = s.type and j.tenant_id = t.tenant_id
          and (j.priority, j.run_at, j.id) > (r.priority, r.run_at, r.id) and j.priority <= r.through
          and j.ready and j.deaths < 2 and j.priority >= 10
        order by j.priority, j.run_at, j.id limit s.jobs
        for no key update skip locked) as b
      limit s.jobs) as w
    limit p_limit) as x
  order by x.turn, x.priority, x.run_at, x.id
$$;
comment on function jobforge.pick_lanes(text[], text[], uuid[], integer, integer, jobforge.claim_mark[]) is
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
