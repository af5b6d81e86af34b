-- owner: jf_sys
-- Claim: reserved work first, then tenants in turn, each by priority, run_at, id. The plan is told in sql/README.md.

create or replace function jobforge.claim_jobs(
  p_worker_id text, p_queues text[], p_types text[], p_limit integer default 1, p_lease_id uuid default null,
  p_lease_seconds integer default 30, p_window integer default null, p_cursor jsonb default null)
returns setof jobforge.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
  v_lease jobforge.leases;
  v_left integer := p_limit;
  v_marks jobforge.claim_mark[];
  v_turns record;
  v_tenants uuid[];
  v_quantum integer;
  v_taken integer;
begin
  perform jobforge.require_claim(p_worker_id, p_queues, p_types, p_limit, p_cursor);
  v_lease := jobforge.hold_lease(p_lease_id, p_worker_id, v_bound, coalesce(p_window, p_limit), p_lease_seconds, v_now);
  perform jobforge.promote(v_now, 1000);

  return query select * from jobforge.claim_suspect(v_lease, p_queues, p_types, v_now);
  get diagnostics v_taken = row_count;
  v_left := v_left - v_taken;
  return query select * from jobforge.claim_reserved(v_lease, p_queues, p_types, v_left, v_now);
  get diagnostics v_taken = row_count;
  v_left := v_left - v_taken;

  v_marks := jobforge.trusted_marks(p_cursor -> 'marks', p_queues, v_now);
  v_turns := jobforge.take_turns(p_queues, p_types, v_bound, (p_cursor ->> 'turn')::uuid, v_left, v_marks, v_now);
  v_tenants := v_turns.tenants;
  -- Everybody in the turn gets a share; what some leave of theirs goes to those who took all of theirs.
  while v_left > 0 and cardinality(v_tenants) > 0 loop
    v_quantum := ceil(v_left::numeric / cardinality(v_tenants));
    return query select * from jobforge.claim_turn(v_lease, p_queues, p_types, v_tenants, v_quantum, v_left, v_marks, v_now);
    get diagnostics v_taken = row_count;
    v_left := v_left - v_taken;
    exit when v_taken = 0 or v_left = 0;
    v_tenants := jobforge.hungry(v_lease.id, v_tenants, v_quantum);
  end loop;

  perform jobforge.keep_lease(v_lease, p_lease_id is null and v_left < p_limit);
  return query select v_lease.id, v_lease.expires_at, false, null::bigint, null::uuid, null::uuid, null, null,
    null::smallint, null::timestamptz, null::integer, null::integer, null::smallint, null::smallint, null::integer, null,
    null, null::jsonb, null::tid, v_turns.turn, v_left = p_limit and v_turns.seen;
end
$$;
comment on function jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb) is
  'Takes up to p_limit jobs onto a lease. The last row has no id: it tells the lease''s expiry, the tenant to go on after '
  '(turn) and whether there is work that others hold locked (more).';
grant execute on function jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb) to jf_worker;

create or replace function jobforge.claim_turn(
  p_lease jobforge.leases, p_queues text[], p_types text[], p_tenants uuid[], p_quantum integer, p_limit integer,
  p_marks jobforge.claim_mark[], p_now timestamptz)
returns setof jobforge.claimed
language plpgsql volatile
as $$
declare
  v_picked tid[];
begin
  if cardinality(p_queues) = 1 and cardinality(p_types) = 1 then
    v_picked := array(
      select x.ctid
      from unnest(p_tenants) as t(tenant_id)
      cross join lateral (
        select w.ctid
        from jobforge.walk_ranges(p_marks, p_queues[1], p_types[1], t.tenant_id) as r
        cross join lateral (
          select j.ctid from jobforge.jobs j
          where j.queue = p_queues[1] and j.type = p_types[1] and j.tenant_id = t.tenant_id
            and (j.priority, j.run_at, j.id) > (r.priority, r.run_at, r.id) and j.priority <= r.through
            and j.ready and j.deaths < 2 and j.priority >= 10
          order by j.priority, j.run_at, j.id limit p_quantum
          for no key update skip locked) as w
        limit p_quantum) as x
      limit p_limit);
  else
    -- Each lane's share is what it has among the tenant's first jobs over all lanes; only that many are locked.
    v_picked := array(
      select x.ctid
      from unnest(p_tenants) as t(tenant_id)
      cross join lateral (
        select h.queue, h.type, count(*) as jobs
        from (
          select q.queue, y.type, w.priority, w.run_at, w.id
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
            limit p_quantum) as w
          order by w.priority, w.run_at, w.id limit p_quantum) as h
        group by h.queue, h.type) as s
      cross join lateral (
        select w.ctid
        from jobforge.walk_ranges(p_marks, s.queue, s.type, t.tenant_id) as r
        cross join lateral (
          select j.ctid from jobforge.jobs j
          where j.queue = s.queue and j.type = s.type and j.tenant_id = t.tenant_id
            and (j.priority, j.run_at, j.id) > (r.priority, r.run_at, r.id) and j.priority <= r.through
            and j.ready and j.deaths < 2 and j.priority >= 10
          order by j.priority, j.run_at, j.id limit s.jobs
          for no key update skip locked) as w
        limit s.jobs) as x
      limit p_limit);
  end if;

  if cardinality(v_picked) > 0 then
    return query select * from jobforge.take(p_lease, v_picked, p_tenants, p_now);
  end if;
end
$$;
comment on function jobforge.claim_turn(jobforge.leases, text[], text[], uuid[], integer, integer, jobforge.claim_mark[],
  timestamptz) is 'Takes up to p_quantum jobs of each tenant, p_limit in all, in the tenants'' order.';

create or replace function jobforge.take(p_lease jobforge.leases, p_picked tid[], p_tenants uuid[], p_now timestamptz)
returns setof jobforge.claimed
language plpgsql volatile
as $$
declare
  v_claim bigint := nextval('jobforge.claim_numbers');
begin
  return query
  with taken as (
    update jobforge.jobs j
    set status = 'running', ready = false, lease_id = p_lease.id, worker_no = p_lease.worker_no, fence = j.fence + 1,
      started_at = p_now
    where j.ctid = any (p_picked)
    returning j.tenant_id, j.id, j.type, j.queue, j.priority, j.run_at, j.fence, j.failures, j.deaths, j.max_attempts,
      j.correlation_id, j.traceparent, j.payload, j.ctid
  ), ordered as materialized (
    select * from taken k order by array_position(p_tenants, k.tenant_id), k.priority, k.run_at, k.id
  ), noted as (
    insert into jobforge.lease_claims (lease_id, claim_no, tenant_ids, job_ids)
    select p_lease.id, v_claim, array_agg(o.tenant_id), array_agg(o.id) from ordered o having count(*) > 0
  )
  select p_lease.id, p_lease.expires_at, p_lease.solo, v_claim, o.tenant_id, o.id, o.type, o.queue, o.priority, o.run_at, o.fence,
    o.failures, o.deaths, o.max_attempts, d.timeout_seconds, o.correlation_id, o.traceparent, o.payload, o.ctid,
    null::uuid, false
  from ordered o left join jobforge.definitions d on d.key = o.type;
end
$$;
comment on function jobforge.take(jobforge.leases, tid[], uuid[], timestamptz) is
  'Puts locked rows on the lease with a new fence each, and notes them there in the order in which they shall start.';

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

create or replace function jobforge.hungry(p_lease_id uuid, p_tenants uuid[], p_quantum integer) returns uuid[]
language sql stable
as $$
  select array_agg(t.tenant_id order by array_position(p_tenants, t.tenant_id))
  from (
    select u.tenant_id
    from jobforge.lease_claims c cross join unnest(c.tenant_ids) as u(tenant_id)
    where c.lease_id = p_lease_id and c.claim_no = currval('jobforge.claim_numbers')
    group by u.tenant_id having count(*) >= p_quantum
  ) as t
$$;
comment on function jobforge.hungry(uuid, uuid[], integer) is
  'The tenants that took all of their share in the claim just made, in turn order.';
