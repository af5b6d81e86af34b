-- owner: jf_sys
-- Few jobs: one look tells what a claim is in for. Where it can take all that is ready, nobody's turn has to be found.

create or replace function jobforge.look_around(
  p_lease_id uuid, p_window integer, p_queues text[], p_types text[], p_few integer, p_now timestamptz) returns record
language plpgsql volatile
as $$
declare
  v_look record;
begin
  -- One statement: where jobs come one at a time, setting a statement up costs more than its rows. Of the lease KEY SHARE
  -- lets the beat update the row and keeps the reaper, which takes FOR UPDATE SKIP LOCKED, away.
  select
    (select l from jobforge.leases l
     where l.id = p_lease_id and l.expires_at > p_now and l.tenant_id is null and (p_window <= l.window_size) is not false
       and (select g.tenant_id is null from jobforge.logins g where g.role_name = session_user::text)
       and coalesce(current_setting('app.bound_tenant', true), '') = ''
     for key share) as lease,
    exists (select from jobforge.jobs f
            where f.status = 'queued' and not f.ready and not f.taken and f.finished_at is null and f.run_at <= p_now) as due,
    exists (select from jobforge.pauses)
      or exists (select from jobforge.tenants t where t.max_in_flight is not null or t.rate_per_second is not null)
      or exists (select from jobforge.definitions d where d.key = any (p_types)
                 and (d.max_in_flight is not null or d.rate_per_second is not null)) as held,
    -- Where they are; null for one that stands apart or has a key. Only equality is sure to go by the index: of two arrays
    -- the second may become a filter.
    array(select w.place from unnest(p_types) as y(type)
          cross join lateral (
            (select null::tid as place from jobforge.jobs j where j.queue = any (p_queues) and j.type = y.type and j.ready
               and (j.deaths >= 2 or (j.priority < 10 and not j.keyed)) limit 1)
            union all
            (select null from jobforge.jobs j where j.queue = any (p_queues) and j.type = y.type and j.ready and j.deaths < 2
               and j.keyed limit 1)
            union all
            (select j.ctid from jobforge.jobs j where j.queue = any (p_queues) and j.type = y.type and j.ready
               and j.lease_id is null and j.deaths < 2 and j.priority >= 10 and not j.keyed limit p_few)) as w
          limit p_few) as ready
  into v_look;
  return v_look;
end
$$;
comment on function jobforge.look_around(uuid, integer, text[], text[], integer, timestamptz) is
  'A trusted worker''s living lease of this window at least, held against the reaper (lease); whether anything is due, and paused '
  'or under a limit (held); and '
  'where what is ready is, p_few of it at most, with a null for what stands apart or has a key.';

create or replace function jobforge.take_one(
  p_lease jobforge.leases, p_place tid, p_queues text[], p_types text[], p_now timestamptz) returns jobforge.claimed
language plpgsql volatile
as $$
declare
  v_claim constant bigint := nextval('jobforge.claim_numbers');
  v_job jobforge.claimed;
begin
  update jobforge.jobs j
  set status = 'running', ready = false, taken = true, lease_id = p_lease.id, worker_no = p_lease.worker_no,
    fence = j.fence + 1, started_at = p_now
  where j.ctid = (
    select k.ctid from jobforge.jobs k
    where k.ctid = p_place and k.queue = any (p_queues) and k.type = any (p_types) and k.ready and k.deaths < 2
      and k.priority >= 10 and not k.keyed and k.lease_id is null
    for no key update skip locked)
  returning (jobforge.as_claimed(j, j.ctid, p_lease.id, p_lease.expires_at, false, v_claim, false,
    (select d.timeout_seconds from jobforge.definitions d where d.key = j.type))).*
  into v_job;
  if found then
    insert into jobforge.lease_claims (lease_id, claim_no, tenant_ids, job_ids)
    values (p_lease.id, v_claim, array[v_job.tenant_id], array[v_job.id]);
  end if;
  return v_job;
end
$$;
comment on function jobforge.take_one(jobforge.leases, tid, text[], text[], timestamptz) is
  'Takes the job at that place onto the lease, if it is still to be had and nobody holds it; else null.';

create or replace function jobforge.survey(
  p_queues text[], p_types text[], out timeouts integer[], out apart boolean, out gated boolean)
language plpgsql volatile
as $$
begin
  select
    array(select (select d.timeout_seconds from jobforge.definitions d where d.key = y.type) from unnest(p_types) as y(type)),
    exists (select from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
            cross join lateral (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready
                                and (j.deaths >= 2 or (j.priority < 10 and not j.keyed)) limit 1) as a),
    exists (select from jobforge.tenants t where t.weight <> 1)
      or exists (select from unnest(p_queues) as q(queue) cross join unnest(p_types) as y(type)
                 cross join lateral (select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready
                                     and j.deaths < 2 and j.keyed limit 1) as k)
  into timeouts, apart, gated;
end
$$;
comment on function jobforge.survey(text[], text[]) is
  'What a claim of more than one job goes by: the types'' timeouts, whether anything stands apart, has a key or a weight.';

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
        where j.queue = q.queue and j.type = y.type and j.ready and j.lease_id is null and j.deaths < 2
          and j.priority >= 10 and not j.keyed
        order by j.tenant_id, j.priority, j.run_at, j.id limit p_limit
        for no key update skip locked) as w
      limit p_limit) as a
    order by a.tenant_id <= p_after, a.tenant_id, a.priority, a.run_at, a.id) as x;
end
$$;
comment on function jobforge.pick_few(text[], text[], uuid, integer) is
  'Locks all that is ready, p_limit at most, in the order of a turn: tenants after p_after first, each by priority, run_at, id.';
