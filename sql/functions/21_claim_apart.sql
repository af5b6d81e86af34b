-- owner: jf_sys
-- Work that does not wait for a tenant's turn: jobs that killed twice, one at a time, and operators' reserved work.

create or replace function jobforge.pick_suspect(
  p_lease jobforge.leases, p_gate jobforge.claim_gate, p_free integer, p_now timestamptz,
  out places tid[], out tenant_ids uuid[], out job_ids uuid[], out limited integer, out rooms jsonb)
language plpgsql volatile
as $$
declare
  v_job record;
  v_admitted record;
begin
  limited := 0; rooms := p_gate.rooms;
  -- One suspect at a time in a process: if it kills again, it convicts itself alone.
  if not exists (
      select from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
      cross join lateral (
        select from jobforge.jobs j where j.queue = q.queue and j.type = y.type and j.ready
          and (j.deaths >= 2 or (j.priority < 10 and not j.keyed)) and (case when j.deaths >= 2 then 1 else 0 end) = 1
        limit 1) as s)
    or exists (select from jobforge.leases l where l.worker_no = p_lease.worker_no and l.solo and l.expires_at > p_now) then
    return;
  end if;
  for v_job in
    select s.*
    from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
    cross join lateral (
      select j.ctid, j.tenant_id, j.type, j.concurrency_key, j.priority, j.run_at, j.id from jobforge.jobs j
      where j.queue = q.queue and j.type = y.type and j.ready and (j.deaths >= 2 or (j.priority < 10 and not j.keyed))
        and (case when j.deaths >= 2 then 1 else 0 end) = 1 and (p_lease.tenant_id is null or j.tenant_id = p_lease.tenant_id)
        and (select r.room from jobforge.tenant_room(j.tenant_id, p_now) as r) > 0
      -- Limits may refuse the first, by its type or its key, or others hold it: some more are tried.
      order by j.priority, j.run_at, j.id limit 10) as s
    order by s.priority, s.run_at, s.id
  loop
    -- Its key may limit it where nothing else does, so each is asked for.
    if exists (select from jobforge.limits_of(v_job.tenant_id, v_job.type, v_job.concurrency_key)) then
      continue when p_free = 0;
      v_admitted := jobforge.admit(rooms, v_job.tenant_id, v_job.type, v_job.concurrency_key, p_now);
      rooms := v_admitted.p_rooms;
      continue when v_admitted.hindrance is not null;
      limited := 1;
    end if;
    perform from jobforge.jobs j where j.ctid = v_job.ctid and j.ready and j.tenant_id = v_job.tenant_id and j.id = v_job.id
      for no key update skip locked;
    if not found then
      rooms := jobforge.give_room_back(rooms, v_job.tenant_id, v_job.type, v_job.concurrency_key);
      limited := 0;
      continue;
    end if;
    places := array[v_job.ctid]; tenant_ids := array[v_job.tenant_id]; job_ids := array[v_job.id];
    return;
  end loop;
  rooms := jobforge.merge_rooms(rooms, jobforge.held_apart(p_gate, 1, p_now));
end
$$;
comment on function jobforge.pick_suspect(jobforge.leases, jobforge.claim_gate, integer, timestamptz) is
  'Locks one job that killed its worker twice, unless the worker runs such a job already or a limit is full.';

create or replace function jobforge.solo_lease(p_lease jobforge.leases, p_now timestamptz) returns jobforge.leases
language plpgsql volatile
as $$
declare
  v_solo jobforge.leases := p_lease;
begin
  v_solo.id := gen_random_uuid();
  v_solo.solo := true;
  v_solo.window_size := 1;
  v_solo.created_at := p_now;
  v_solo.beat_at := p_now;
  v_solo.expires_at := p_now + make_interval(secs => p_lease.ttl_seconds);
  perform jobforge.keep_lease(v_solo);
  return v_solo;
end
$$;
comment on function jobforge.solo_lease(jobforge.leases, timestamptz) is 'A lease of its own for a suspect.';

create or replace function jobforge.pick_reserved(
  p_lease jobforge.leases, p_gate jobforge.claim_gate, p_limit integer,
  out places tid[], out tenant_ids uuid[], out job_ids uuid[])
language plpgsql volatile
as $$
begin
  select array_agg(s.ctid), array_agg(s.tenant_id), array_agg(s.id) into places, tenant_ids, job_ids
  from (
    select w.ctid, w.tenant_id, w.id
    from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
    cross join lateral (
      select j.ctid, j.tenant_id, j.priority, j.run_at, j.id from jobforge.jobs j
      where j.queue = q.queue and j.type = y.type and j.ready and (j.deaths >= 2 or (j.priority < 10 and not j.keyed))
        and (case when j.deaths >= 2 then 1 else 0 end) = 0
        and (p_lease.tenant_id is null or j.tenant_id = p_lease.tenant_id)
      order by j.priority, j.run_at, j.id limit p_limit
      for no key update of j skip locked) as w
    order by w.priority, w.run_at, w.id limit p_limit) as s;
end
$$;
comment on function jobforge.pick_reserved(jobforge.leases, jobforge.claim_gate, integer) is
  'Locks operators'' work (priorities 0 to 9), whosever it is, before any tenant''s turn.';

create or replace function jobforge.pick_reserved_limited(
  p_lease jobforge.leases, p_gate jobforge.claim_gate, p_limit integer, p_free integer, p_now timestamptz,
  out places tid[], out tenant_ids uuid[], out job_ids uuid[], out limited integer, out rooms jsonb)
language plpgsql volatile
as $$
declare
  v_job record;
  v_admitted record;
begin
  places := '{}'; tenant_ids := '{}'; job_ids := '{}'; limited := 0; rooms := p_gate.rooms;
  for v_job in
    select w.*
    from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
    cross join lateral (
      select j.ctid, j.tenant_id, j.type, j.priority, j.run_at, j.id from jobforge.jobs j
      where j.queue = q.queue and j.type = y.type and j.ready and (j.deaths >= 2 or (j.priority < 10 and not j.keyed))
        and (case when j.deaths >= 2 then 1 else 0 end) = 0
        and (p_lease.tenant_id is null or j.tenant_id = p_lease.tenant_id)
        and (select r.room from jobforge.tenant_room(j.tenant_id, p_now) as r) > 0
        and (p_free > 0 or not exists (select from jobforge.limits_of(j.tenant_id, j.type, null)))
      order by j.priority, j.run_at, j.id limit p_limit
      for no key update of j skip locked) as w
    order by w.priority, w.run_at, w.id
  loop
    exit when cardinality(places) = p_limit;
    if exists (select from jobforge.limits_of(v_job.tenant_id, v_job.type, null)) then
      continue when limited = p_free;
      v_admitted := jobforge.admit(rooms, v_job.tenant_id, v_job.type, null, p_now);
      rooms := v_admitted.p_rooms;
      continue when v_admitted.hindrance is not null;
      limited := limited + 1;
    end if;
    places := places || v_job.ctid;
    tenant_ids := tenant_ids || v_job.tenant_id;
    job_ids := job_ids || v_job.id;
  end loop;
  if cardinality(places) < p_limit then
    rooms := jobforge.merge_rooms(rooms, jobforge.held_apart(p_gate, 0, p_now));
  end if;
end
$$;
comment on function jobforge.pick_reserved_limited(jobforge.leases, jobforge.claim_gate, integer, integer, timestamptz) is
  'pick_reserved where something is held: what a limit concerns, p_free at most, only as far as it has room.';

create or replace function jobforge.held_apart(p_gate jobforge.claim_gate, p_suspect integer, p_now timestamptz) returns jsonb
language sql volatile
as $$
  select case when bool_or(r.room = 0) then jsonb_build_object('full', true, 'retry_at', min(r.retry_at)) else '{}' end
  from unnest(p_gate.queues) as q(queue) cross join unnest(p_gate.types) as y(type)
  cross join lateral (
    select j.tenant_id from jobforge.jobs j
    where j.queue = q.queue and j.type = y.type and j.ready and (j.deaths >= 2 or (j.priority < 10 and not j.keyed))
      and (case when j.deaths >= 2 then 1 else 0 end) = p_suspect
    order by j.priority, j.run_at, j.id limit 10) as s
  cross join lateral jobforge.tenant_room(s.tenant_id, p_now) as r
$$;
comment on function jobforge.held_apart(jobforge.claim_gate, integer, timestamptz) is
  'Whether the first of the suspects (1) or of the reserved jobs (0) are of tenants without room, and when a rate has some.';
