-- owner: jf_sys
-- Work that does not wait for a tenant's turn: jobs that killed twice, one at a time, and operators' reserved work.

create or replace function jobforge.claim_suspect(
  p_lease jobforge.leases, p_queues text[], p_types text[], p_now timestamptz)
returns setof jobforge.claimed
language plpgsql volatile
as $$
declare
  v_solo jobforge.leases := p_lease;
  v_picked tid;
begin
  -- One suspect at a time in a process: if it kills again, it convicts itself alone.
  if not exists (
      select from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
      cross join lateral (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready
                          and j.deaths >= 2 limit 1) as s)
    or exists (select from jobforge.leases l where l.worker_no = p_lease.worker_no and l.solo and l.expires_at > p_now) then
    return;
  end if;
  select s.ctid into v_picked
  from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
  cross join lateral (
    select j.ctid, j.run_at from jobforge.jobs j
    where j.queue = q.queue and j.type = y.type and j.ready and j.deaths >= 2
      and (p_lease.tenant_id is null or j.tenant_id = p_lease.tenant_id)
      and not exists (select from jobforge.tenants h where h.id = j.tenant_id and h.paused_at is not null)
    order by j.run_at, j.id limit 1
    for no key update of j skip locked) as s
  order by s.run_at limit 1;
  if v_picked is null then
    return;
  end if;

  v_solo.id := gen_random_uuid();
  v_solo.solo := true;
  v_solo.window_size := 1;
  v_solo.created_at := p_now;
  v_solo.beat_at := p_now;
  v_solo.expires_at := p_now + make_interval(secs => p_lease.ttl_seconds);
  perform jobforge.keep_lease(v_solo, true);
  return query select * from jobforge.take(v_solo, array[v_picked], null, p_now);
end
$$;
comment on function jobforge.claim_suspect(jobforge.leases, text[], text[], timestamptz) is
  'Takes one job that killed its worker twice, on a lease of its own, unless the worker runs such a job already.';

create or replace function jobforge.claim_reserved(
  p_lease jobforge.leases, p_queues text[], p_types text[], p_limit integer, p_now timestamptz)
returns setof jobforge.claimed
language plpgsql volatile
as $$
declare
  v_picked tid[];
begin
  v_picked := array(
    select s.ctid
    from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
    cross join lateral (
      select j.ctid, j.priority, j.run_at, j.id from jobforge.jobs j
      where j.queue = q.queue and j.type = y.type and j.ready and j.deaths < 2 and j.priority < 10
        and (p_lease.tenant_id is null or j.tenant_id = p_lease.tenant_id)
        and not exists (select from jobforge.tenants h where h.id = j.tenant_id and h.paused_at is not null)
      order by j.priority, j.run_at, j.id limit p_limit
      for no key update of j skip locked) as s
    order by s.priority, s.run_at, s.id limit p_limit);
  if cardinality(v_picked) > 0 then
    return query select * from jobforge.take(p_lease, v_picked, null, p_now);
  end if;
end
$$;
comment on function jobforge.claim_reserved(jobforge.leases, text[], text[], integer, timestamptz) is
  'Takes operators'' work (priorities 0 to 9), whosever it is, before any tenant''s turn.';
