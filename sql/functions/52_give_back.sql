-- owner: jf_sys
-- Give back: release and snooze return a job without counting anything against it.

create or replace function jobforge.release_jobs(
  p_lease_id uuid, p_tenant_ids uuid[] default null, p_job_ids uuid[] default null, p_fences integer[] default null)
returns table (at integer, verdict text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '100ms'
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_done integer[] := '{}';
  v_tenant_ids uuid[];
  v_job_ids uuid[];
  v_back record;
begin
  if p_job_ids is null and p_tenant_ids is null and p_fences is null then
    -- The worker is through with this lease: whatever is still on it, known to the worker or not, goes back.
    if not jobforge.lease_lives(p_lease_id, v_now) then
      perform jobforge.refuse('JF006', 'lease_lost', format('lease %s is lost', p_lease_id));
    end if;
    -- A claim that is still putting jobs on it ends first, and is seen below.
    perform from jobforge.leases l where l.id = p_lease_id for update;
    select b.* into v_back from jobforge.held_jobs(p_lease_id) as h
    cross join lateral jobforge.hand_back(p_lease_id, h.tenant_ids, h.job_ids, v_now) as b;
    delete from jobforge.lease_claims c where c.lease_id = p_lease_id;
    delete from jobforge.leases l where l.id = p_lease_id;
    perform jobforge.look_behind(v_back.queues, v_back.run_ats);
    return;
  end if;
  perform jobforge.require_columns(cardinality(p_job_ids), coalesce(cardinality(p_tenant_ids), 0),
    coalesce(cardinality(p_fences), 0));
  if jobforge.lease_lives(p_lease_id, v_now) then
    with locked as (
      select r.at::integer as at, r.tenant_id, r.id
      from (select u.* from unnest(p_tenant_ids, p_job_ids, p_fences) with ordinality as u(tenant_id, id, fence, at)
            order by u.tenant_id, u.id) as r
      cross join lateral (
        select from jobforge.jobs j
        where j.tenant_id = r.tenant_id and j.id = r.id and j.fence = r.fence and j.lease_id = p_lease_id
        for no key update) as j
    )
    select array_agg(l.at), array_agg(l.tenant_id), array_agg(l.id) into v_done, v_tenant_ids, v_job_ids from locked l;
    v_back := jobforge.hand_back(p_lease_id, coalesce(v_tenant_ids, '{}'), coalesce(v_job_ids, '{}'), v_now);
    perform jobforge.look_behind(v_back.queues, v_back.run_ats);
  end if;
  return query select v.at, v.verdict
  from jobforge.verdicts(p_lease_id, p_tenant_ids, p_job_ids, p_fences, v_done, v_now) as v;
end
$$;
comment on function jobforge.release_jobs(uuid, uuid[], uuid[], integer[]) is
  'Gives jobs back free, each with a verdict; without a list it gives back all the lease still holds and ends the lease.';
grant execute on function jobforge.release_jobs(uuid, uuid[], uuid[], integer[]) to jf_worker;

create or replace function jobforge.snooze_job(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_seconds double precision)
returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set lock_timeout = '100ms'
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_run_at timestamptz;
begin
  if p_seconds is null or p_seconds not between 0 and 31536000 then
    perform jobforge.refuse('JF001', 'snooze_out_of_range', 'p_seconds must be 0 to a year');
  end if;
  if jobforge.lease_lives(p_lease_id, v_now) then
    update jobforge.jobs j
    set status = 'queued', ready = false, taken = false, run_at = v_now + make_interval(secs => p_seconds), lease_id = null
    where j.tenant_id = p_tenant_id and j.id = p_job_id and j.fence = p_fence and j.lease_id = p_lease_id
      and j.cancel_at is null
    returning j.run_at into v_run_at;
  end if;
  if v_run_at is null then
    perform jobforge.refuse_stale(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  end if;
  return v_run_at;
end
$$;
comment on function jobforge.snooze_job(uuid, uuid, uuid, integer, double precision) is
  'Puts a running job off without counting the attempt as a failure.';
grant execute on function jobforge.snooze_job(uuid, uuid, uuid, integer, double precision) to jf_worker;

create or replace function jobforge.refuse_stale(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_verdict text;
begin
  select v.verdict into v_verdict from jobforge.verdicts(p_lease_id, array[p_tenant_id], array[p_job_id], array[p_fence],
    '{}', p_now) as v;
  if v_verdict = 'invalid' then
    perform jobforge.refuse('JF008', 'cancel_requested', format('job %s is asked to stop', p_job_id));
  end if;
  perform jobforge.require_verdict(case when v_verdict = 'already' then 'stale' else v_verdict end, p_job_id);
end
$$;
comment on function jobforge.refuse_stale(uuid, uuid, uuid, integer, timestamptz) is
  'Raises for a report that changed nothing: stale, unknown, or asked to stop.';

create or replace function jobforge.held_jobs(p_lease_id uuid, out tenant_ids uuid[], out job_ids uuid[])
language sql volatile
as $$
  -- In claim order, each job once, and only what is still on this lease.
  with listed as (
    select u.tenant_id, u.id, min(array[c.claim_no, u.at]) as place
    from jobforge.lease_claims c cross join unnest(c.tenant_ids, c.job_ids) with ordinality as u(tenant_id, id, at)
    where c.lease_id = p_lease_id group by u.tenant_id, u.id
  )
  select array_agg(k.tenant_id order by k.place), array_agg(k.id order by k.place)
  from listed k
  -- OFFSET 0 keeps it one look-up a job: a plan made while the table was small would walk all of it.
  cross join lateral (select from jobforge.jobs j
                      where j.tenant_id = k.tenant_id and j.id = k.id and j.lease_id = p_lease_id offset 0) as j
$$;
comment on function jobforge.held_jobs(uuid) is 'The jobs a lease still holds, in the order in which they were to start.';

create or replace function jobforge.hand_back(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_now timestamptz,
  out requeued integer, out queues text[], out run_ats timestamptz[])
language plpgsql volatile
as $$
declare
  -- Before anything is looked at: a cancel that is being written ends first, and is seen below.
  v_places tid[] := (jobforge.locate(p_lease_id, p_tenant_ids, p_job_ids, null)).places;
  v_back record := jobforge.hand_back_at(p_lease_id, v_places, p_now);
begin
  requeued := v_back.requeued; queues := v_back.queues; run_ats := v_back.run_ats;
end
$$;
comment on function jobforge.hand_back(uuid, uuid[], uuid[], timestamptz) is
  'Puts a lease''s jobs back where they stood, free; tells how many, and of each queue the earliest, for look_behind.';

create or replace function jobforge.hand_back_at(
  p_lease_id uuid, p_places tid[], p_now timestamptz, out requeued integer, out queues text[], out run_ats timestamptz[])
language plpgsql volatile
as $$
begin
  -- A job asked to stop ends here; the others keep their place in the order.
  perform jobforge.apply_end(j.tenant_id, j.id, 'canceled', 'canceled before it started', null, p_now)
  from jobforge.jobs j where j.ctid = any (p_places) and j.lease_id = p_lease_id and j.cancel_at is not null;
  with back as (
    update jobforge.jobs j set status = 'queued', ready = true, taken = false, lease_id = null, started_at = null
    where j.ctid = any (p_places) and j.lease_id = p_lease_id and j.status = 'running'
    returning j.queue, j.run_at
  ), lowest as (
    select b.queue, min(b.run_at) as run_at, count(*) as jobs from back b group by b.queue
  )
  select coalesce(sum(l.jobs), 0), array_agg(l.queue), array_agg(l.run_at) into requeued, queues, run_ats from lowest l;
  if requeued > 0 and exists (select from jobforge.sleepers s where s.expires_at > p_now) then
    perform pg_notify('jobforge_wake', '');
  end if;
end
$$;
comment on function jobforge.hand_back_at(uuid, tid[], timestamptz) is
  'hand_back of the jobs at these places, which the caller has locked.';

create or replace function jobforge.hold_unlocked(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[],
  out ats integer[], out tenant_ids uuid[], out job_ids uuid[], out places tid[])
language sql volatile
as $$
  select array_agg(h.at::integer), array_agg(h.tenant_id), array_agg(h.id), array_agg(h.place)
  from (
    select u.at, u.tenant_id, u.id, w.ctid as place
    from unnest(p_tenant_ids, p_job_ids) with ordinality as u(tenant_id, id, at)
    cross join lateral (
      select j.ctid from jobforge.jobs j
      where j.tenant_id = u.tenant_id and j.id = u.id and j.lease_id = p_lease_id for update skip locked) as w
    order by u.at) as h
$$;
comment on function jobforge.hold_unlocked(uuid, uuid[], uuid[]) is
  'Locks those of a lease''s jobs that nobody else holds, and tells in their order which they are (ats) and where.';

create or replace function jobforge.look_behind(p_queues text[], p_run_ats timestamptz[]) returns void
language sql volatile
as $$
  -- In one order and as the last thing of a call: two who give back jobs of several queues would wait for each other.
  with held as (
    select s.queue, s.lanes from jobforge.sweeps s where s.queue = any (p_queues) order by s.queue, s.lanes for no key update
  )
  update jobforge.sweeps s set low = least(s.low, l.run_at), swept_at = '-infinity'
  from held h
  join (select u.queue, min(u.run_at) as run_at from unnest(p_queues, p_run_ats) as u(queue, run_at) group by u.queue) as l
    on l.queue = h.queue
  where s.queue = h.queue and s.lanes = h.lanes
$$;
comment on function jobforge.look_behind(text[], timestamptz[]) is
  'Lets the next claim of these queues look behind its position, from these times on.';
