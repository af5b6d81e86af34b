-- owner: jf_sys
-- Keep alive: one row per worker and beat, whatever it runs.

create or replace function jobforge.heartbeat(
  p_lease_id uuid, p_tenant_ids uuid[] default null, p_job_ids uuid[] default null, p_fences integer[] default null,
  p_through bigint default null)
returns table (expires_at timestamptz, tenant_id uuid, id uuid, problem text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
  v_expires timestamptz;
  v_worker integer;
begin
  perform jobforge.require_listed(p_tenant_ids, p_job_ids, p_fences);
  -- What a list leaves out is forgotten, and would be given back by nobody.
  if p_through is not null and (p_job_ids is null
      or greatest(array_ndims(p_job_ids), array_ndims(p_tenant_ids), array_ndims(p_fences)) > 1
      or array_position(p_job_ids, null) is not null or array_position(p_tenant_ids, null) is not null
      or array_position(p_fences, null) is not null) then
    perform jobforge.refuse('JF001', 'jobs_missing', 'with p_through all jobs are listed, each with its tenant and fence');
  end if;
  -- Before this sign of life hides the gap from the leader.
  perform jobforge.notice_outage(v_now);
  update jobforge.leases l set beat_at = v_now, expires_at = v_now + make_interval(secs => l.ttl_seconds)
  where l.id = p_lease_id and l.expires_at > v_now and (v_bound is null or l.tenant_id = v_bound)
  returning l.expires_at, l.worker_no into v_expires, v_worker;
  if v_expires is null then
    perform jobforge.refuse('JF006', 'lease_lost', format('lease %s is lost', p_lease_id));
  end if;
  update jobforge.workers w set last_seen = v_now, running = coalesce(cardinality(p_job_ids), w.running)
  where w.no = v_worker;

  -- The worker holds nothing else of its claims up to p_through: one row replaces theirs.
  if p_through is not null then
    delete from jobforge.lease_claims c where c.lease_id = p_lease_id and c.claim_no <= p_through;
    if cardinality(p_job_ids) > 0 then
      insert into jobforge.lease_claims (lease_id, claim_no, tenant_ids, job_ids)
      values (p_lease_id, p_through, p_tenant_ids, p_job_ids);
    end if;
  end if;

  return query select v_expires, null::uuid, null::uuid, null::text;
  return query
  select null::timestamptz, u.tenant_id, u.id, case when j.id is null then 'lost' else 'canceled' end
  from unnest(p_tenant_ids, p_job_ids, p_fences) as u(tenant_id, id, fence)
  -- OFFSET 0 keeps it one look-up a job: a plan made while the table was small would walk all of it.
  left join lateral (
    select k.id, k.cancel_at from jobforge.jobs k
    where k.tenant_id = u.tenant_id and k.id = u.id and k.fence = u.fence and k.lease_id = p_lease_id offset 0) as j on true
  where j.id is null or j.cancel_at is not null;
end
$$;
comment on function jobforge.heartbeat(uuid, uuid[], uuid[], integer[], bigint) is
  'Renews a lease. The first row tells its new expiry, the others which of the listed jobs are canceled or lost.';
grant execute on function jobforge.heartbeat(uuid, uuid[], uuid[], integer[], bigint) to jf_worker;

create or replace function jobforge.require_listed(p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[]) returns void
language plpgsql immutable
as $$
begin
  if cardinality(p_job_ids) > 100000 then
    perform jobforge.refuse('JF001', 'batch_size', 'a list of a lease''s jobs holds at most 100000');
  elsif coalesce(cardinality(p_tenant_ids), 0) <> coalesce(cardinality(p_job_ids), 0)
      or coalesce(cardinality(p_fences), 0) <> coalesce(cardinality(p_job_ids), 0) then
    perform jobforge.refuse('JF001', 'columns_differ', 'the columns of a batch differ in length');
  end if;
end
$$;
comment on function jobforge.require_listed(uuid[], uuid[], integer[]) is
  'Refuses a list of what a worker holds that is longer than the widest window, or whose columns differ in length.';

create or replace function jobforge.notice_outage(p_now timestamptz) returns boolean
language plpgsql volatile
as $$
declare
  v_leader jobforge.leader;
  v_alive timestamptz;
begin
  -- Twice: nobody waits for the leader's row as long as all is well, and who waited for it looks again.
  for v_look in 1..2 loop
    if v_look = 1 then
      select l.* into v_leader from jobforge.leader l;
    else
      select l.* into v_leader from jobforge.leader l for no key update;
    end if;
    -- Anybody's sign of life shows that the database was there.
    v_alive := greatest(v_leader.alive_at,
      (select max(l.beat_at) from jobforge.leases l),
      (select s.expires_at - interval '2 seconds' from jobforge.sentinel s));
    if v_leader.server_started_at = pg_postmaster_start_time() and v_alive > p_now - interval '5 seconds' then
      return false;
    end if;
  end loop;
  update jobforge.leases l set expires_at = p_now + make_interval(secs => l.ttl_seconds)
  where l.expires_at > v_alive and l.expires_at < p_now + make_interval(secs => l.ttl_seconds);
  update jobforge.leader l set alive_at = p_now, server_started_at = pg_postmaster_start_time();
  return true;
end
$$;
comment on function jobforge.notice_outage(timestamptz) is
  'After a gap in everybody''s signs of life or a new start of the server, gives the leases that were alive then one more TTL.';
