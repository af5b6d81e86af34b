-- owner: jf_sys
-- What a claim needs around its walk: a sound request, a lease, due work made ready, positions it may trust.

-- A function whose arguments grew would stand beside the old one.
drop function if exists jobforge.require_claim(text, text[], text[], integer, jsonb, integer, integer);
create or replace function jobforge.require_claim(
  p_worker_id text, p_queues text[], p_types text[], p_limit integer, p_cursor jsonb, p_free integer default null,
  p_window integer default null, p_quick boolean default false)
returns void
language plpgsql immutable
as $$
begin
  if p_worker_id is null then
    perform jobforge.refuse('JF001', 'worker_missing', 'p_worker_id is null');
  elsif p_limit is null or p_limit not between 1 and 5000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 5000');
  elsif p_free < 0 then
    perform jobforge.refuse('JF001', 'free_out_of_range', 'p_free must not be negative');
  elsif p_window < 1 then
    perform jobforge.refuse('JF001', 'window_out_of_range', 'p_window must be 1 to 100000');
  elsif array_ndims(p_queues) is distinct from 1 or cardinality(p_queues) > 50 or array_position(p_queues, null) is not null then
    perform jobforge.refuse('JF001', 'queues_out_of_range', 'p_queues must name 1 to 50 queues');
  elsif array_lower(p_queues, 1) <> 1 or array_lower(p_types, 1) <> 1 then
    perform jobforge.refuse('JF001', 'columns_differ', 'p_queues and p_types are plain lists');
  elsif exists (select from unnest(p_queues) as q where length(q) > 63) then
    perform jobforge.refuse('JF001', 'queue_malformed', 'a queue has at most 63 characters');
  elsif array_ndims(p_types) is distinct from 1 or cardinality(p_types) > 500 or array_position(p_types, null) is not null then
    perform jobforge.refuse('JF001', 'types_out_of_range', 'p_types must name 1 to 500 types');
  elsif p_quick is null then
    perform jobforge.refuse('JF001', 'quick_missing', 'p_quick is null');
  elsif p_cursor is not null and (jsonb_typeof(p_cursor) <> 'object'
      or p_cursor ->> 'turn' !~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' or p_cursor ->> 'owed' !~ '^[0-9]{1,9}$'
      or case jsonb_typeof(p_cursor -> 'marks') when 'array' then jsonb_array_length(p_cursor -> 'marks') > 64
        when 'null' then false else p_cursor ? 'marks' end) then
    perform jobforge.refuse('JF001', 'cursor_malformed', 'p_cursor is not a cursor of an earlier claim');
  end if;
end
$$;
comment on function jobforge.require_claim(text, text[], text[], integer, jsonb, integer, integer, boolean) is 'Refuses a malformed claim.';

create or replace function jobforge.once_each(p_names text[]) returns text[]
language plpgsql immutable
as $$
begin
  return array(select u.name from unnest(p_names) with ordinality as u(name, at) group by u.name order by min(u.at));
end
$$;
comment on function jobforge.once_each(text[]) is 'These names in their order, each where it comes first.';

create or replace function jobforge.hold_lease(
  p_lease_id uuid, p_new_lease_id uuid, p_worker_id text, p_window integer, p_seconds integer, p_now timestamptz)
returns jobforge.leases
language plpgsql volatile
as $$
declare
  v_lease jobforge.leases;
begin
  if p_lease_id is not null then
    return jobforge.widen_lease(jobforge.require_lease(p_lease_id, p_now), p_window);
  end if;
  if p_seconds is null or p_seconds not between 1 and 3600 then
    perform jobforge.refuse('JF001', 'lease_out_of_range', 'p_lease_seconds must be 1 to 3600');
  elsif p_window > 100000 then
    perform jobforge.refuse('JF001', 'window_out_of_range', 'p_window must be 1 to 100000');
  end if;
  -- Before this sign of life hides a gap from the leader.
  perform jobforge.notice_outage(p_now);
  -- A caller that chose the id itself can close the lease though the answer was lost.
  select coalesce(p_new_lease_id, gen_random_uuid()), w.no, jobforge.login_tenant(), p_window, p_seconds, false, p_now, p_now,
    p_now + make_interval(secs => p_seconds)
  into v_lease from jobforge.workers w where w.worker_id = p_worker_id;
  if v_lease.id is null then
    perform jobforge.refuse('JF007', 'worker_unknown', format('worker %s is not registered', p_worker_id));
  end if;
  return v_lease;
end
$$;
comment on function jobforge.hold_lease(uuid, uuid, text, integer, integer, timestamptz) is
  'The living lease of that id, held against the reaper, or the row of a new one, stored only when something is claimed.';

create or replace function jobforge.widen_lease(p_lease jobforge.leases, p_window integer) returns jobforge.leases
language plpgsql volatile
as $$
declare
  v_lease jobforge.leases := p_lease;
begin
  if (p_window <= p_lease.window_size) is not false then
    return p_lease;
  elsif p_window > 100000 or p_lease.solo then
    perform jobforge.refuse('JF001', 'window_out_of_range', 'p_window must be 1 to 100000, and 1 on the lease of a suspect');
  end if;
  -- Another claim may have made it wider meanwhile.
  update jobforge.leases l set window_size = greatest(l.window_size, p_window) where l.id = p_lease.id
  returning l.window_size into v_lease.window_size;
  return v_lease;
end
$$;
comment on function jobforge.widen_lease(jobforge.leases, integer) is
  'A living lease with at least this window. It never becomes tighter: more of its jobs may have started than that.';

create or replace function jobforge.require_lease(p_lease_id uuid, p_now timestamptz) returns jobforge.leases
language plpgsql volatile
as $$
declare
  v_lease jobforge.leases;
  v_bound uuid;
  v_known boolean;
begin
  -- KEY SHARE lets the beat update the row and keeps the reaper, which takes FOR UPDATE SKIP LOCKED, away.
  select l.id, l.worker_no, l.tenant_id, l.window_size, l.ttl_seconds, l.solo, l.created_at, l.beat_at, l.expires_at,
    g.tenant_id, true
  into v_lease.id, v_lease.worker_no, v_lease.tenant_id, v_lease.window_size, v_lease.ttl_seconds, v_lease.solo,
    v_lease.created_at, v_lease.beat_at, v_lease.expires_at, v_bound, v_known
  from jobforge.logins g cross join jobforge.leases l
  where g.role_name = session_user::text and l.id = p_lease_id for key share of l;
  -- One of them is missing: an unknown login is told so first. Or the login has narrowed itself.
  if v_known is null or current_setting('app.bound_tenant', true) <> '' then
    v_bound := jobforge.login_tenant();
  end if;
  if v_lease.id is null or v_lease.expires_at <= p_now or (v_bound is not null and v_lease.tenant_id is distinct from v_bound) then
    perform jobforge.refuse('JF006', 'lease_lost', format('lease %s is lost', p_lease_id));
  end if;
  return v_lease;
end
$$;
comment on function jobforge.require_lease(uuid, timestamptz) is
  'The lease, alive at p_now and kept from the reaper until this transaction ends; else lease lost.';

create or replace function jobforge.keep_lease(p_lease jobforge.leases) returns void
language plpgsql volatile
as $$
begin
  insert into jobforge.leases select (p_lease).* on conflict (id) do nothing;
  if not found then
    perform jobforge.refuse('JF008', 'lease_taken', format('there is a lease %s: release it, or give another id', (p_lease).id));
  end if;
end
$$;
comment on function jobforge.keep_lease(jobforge.leases) is 'Stores a new lease once it holds something.';

create or replace function jobforge.promote(p_now timestamptz, p_limit integer) returns integer
language plpgsql volatile
as $$
declare
  v_promoted integer;
begin
  update jobforge.jobs j set ready = true
  where j.ctid = any (array(
    select f.ctid from jobforge.jobs f
    where f.status = 'queued' and not f.ready and not f.taken and f.finished_at is null and f.run_at <= p_now
    order by f.run_at, f.tenant_id, f.id limit p_limit
    for no key update skip locked));
  get diagnostics v_promoted = row_count;
  return v_promoted;
end
$$;
comment on function jobforge.promote(timestamptz, integer) is
  'Makes due work ready. Every claim does it, so that a retry waits for no scheduler.';

create or replace function jobforge.trusted_marks(p_marks jsonb, p_queues text[], p_types text[], p_now timestamptz)
returns jobforge.claim_mark[]
language plpgsql volatile
as $$
declare
  v_marks jobforge.claim_mark[];
  v_queue text;
  v_lanes text;
  v_low timestamptz;
begin
  if p_marks is null or p_marks in ('null', '[]') then
    return null;
  end if;
  v_lanes := jobforge.lanes(p_types);
  v_marks := jobforge.read_marks(p_marks);
  -- In one order: two claims that note the first positions of the same queues wait for each other's rows.
  foreach v_queue in array array(select distinct q from unnest(p_queues) as q order by q) loop
    v_low := jobforge.sweep(v_queue, v_lanes, p_now);
    if v_low is not null then
      v_marks := array(
        select case when m.queue = v_queue and m.run_at >= v_low
          then row(m.queue, m.type, m.tenant_id, m.priority, v_low, '00000000-0000-0000-0000-000000000000')::jobforge.claim_mark
          else m end
        from unnest(v_marks) as m);
      if v_low > '-infinity' then
        update jobforge.sweeps s set marks = (select coalesce(jsonb_agg(m), '[]') from unnest(v_marks) as m where m.queue = v_queue)
        where s.queue = v_queue and s.lanes = v_lanes;
      end if;
    end if;
  end loop;
  return v_marks;
end
$$;
comment on function jobforge.trusted_marks(jsonb, text[], text[], timestamptz) is
  'The remembered positions of a cursor; once a second, for one claimer of a queue and its types, moved back to where late comers may be.';

create or replace function jobforge.sweep_on(
  p_gate jobforge.claim_gate, p_cursor jsonb, p_marks jobforge.claim_mark[], p_lanes text[], p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_before jobforge.claim_mark[] := jobforge.read_marks(p_cursor -> 'marks');
begin
  if v_before is not distinct from p_marks then
    return;
  end if;
  -- What cannot be had now is no reason, or claims would sweep until it can: a tenant or a type without room, a job that
  -- somebody holds. It is held here to the claim's end, which is near.
  update jobforge.sweeps s set late = true, late_since = coalesce(s.late_since, p_now), low = least(s.low, l.run_at)
  from (
    select m.queue, min(j.run_at) as run_at
    from (
      select a.*, b.run_at as before_at, b.id as before_id
      from generate_subscripts(p_marks, 1) as n
      cross join lateral (select (p_marks[n]).*) as a cross join lateral (select (v_before[n]).*) as b
      where a.run_at < b.run_at and a.queue = any (p_gate.queues) and a.type = any (p_gate.types)
        and coalesce((p_gate.rooms ->> ('definition ' || a.type))::integer, 1) > 0
        and (select r.room from jobforge.tenant_room(a.tenant_id, p_now) as r) > 0
      offset 0) as m
    cross join lateral (
      select j.run_at from jobforge.jobs j
      where j.queue = m.queue and j.type = m.type and j.tenant_id = m.tenant_id
        and (j.priority, j.run_at, j.id) > (m.priority, m.run_at, m.id)
        and (j.priority, j.run_at, j.id) <= (m.priority, m.before_at, m.before_id)
        and j.ready and j.lease_id is null and j.deaths < 2 and j.priority >= 10 and not j.keyed
      order by j.priority, j.run_at, j.id limit 1
      for no key update skip locked) as j
    group by m.queue) as l
  where s.queue = l.queue and s.lanes = jobforge.lanes(p_lanes);
end
$$;
comment on function jobforge.sweep_on(jobforge.claim_gate, jsonb, jobforge.claim_mark[], text[], timestamptz) is
  'Lets the next claims sweep, too, where this one moved a position back and did not come to its tenant, though a late job is '
  'there: each of them for a second, then four in a second.';

create or replace function jobforge.read_marks(p_marks jsonb) returns jobforge.claim_mark[]
language plpgsql stable
as $$
declare
  v_marks jobforge.claim_mark[];
begin
  -- A mark without one of its fields is of no claim.
  v_marks := array(select m from jsonb_populate_recordset(null::jobforge.claim_mark, p_marks) as m where m is not null);
  if cardinality(v_marks) < jsonb_array_length(p_marks) then
    perform jobforge.refuse('JF001', 'cursor_malformed', 'p_cursor is not a cursor of an earlier claim');
  end if;
  return v_marks;
exception
  -- Whoever made them up finds out as with everything else in a cursor. Nothing is written in here: it costs next to nothing.
  when data_exception then
    perform jobforge.refuse('JF001', 'cursor_malformed', 'p_cursor is not a cursor of an earlier claim');
end
$$;
comment on function jobforge.read_marks(jsonb) is 'The remembered positions of a cursor as the walk goes by them.';

create or replace function jobforge.recall_marks(p_queues text[], p_types text[]) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- Claims for one tenant go by no positions, and those of others are not theirs to know.
  if jobforge.login_tenant() is not null then
    return null;
  end if;
  return (
    select jsonb_agg(m order by s.swept_at, m ->> 'run_at')
    from jobforge.sweeps s cross join lateral jsonb_array_elements(s.marks) as m
    where s.queue = any (p_queues) and s.lanes = jobforge.lanes(p_types));
end
$$;
comment on function jobforge.recall_marks(text[], text[]) is
  'The positions from which a worker of these queues and types last swept, for one that starts; null where there are none, and '
  'for a login bound to a tenant.';
grant execute on function jobforge.recall_marks(text[], text[]) to jf_worker;

create or replace function jobforge.lanes(p_types text[]) returns text
language sql immutable
as $$ select md5(array(select distinct y from unnest(p_types) as y order by y)::text) $$;
comment on function jobforge.lanes(text[]) is 'What a set of types is called where the sweeps of its claimers are kept.';

create or replace function jobforge.sweep(p_queue text, p_lanes text, p_now timestamptz) returns timestamptz
language plpgsql volatile
as $$
declare
  v_sweep jobforge.sweeps;
  v_snapshot pg_snapshot := pg_current_snapshot();
  v_full boolean;
  v_apart interval;
  v_due timestamptz;
begin
  select s.* into v_sweep from jobforge.sweeps s where s.queue = p_queue and s.lanes = p_lanes;
  v_full := v_sweep.full_at < p_now - interval '1 minute';
  -- A late job is mostly had within a round of the turns. Where there is one all the time, sweeps must not take all of it.
  v_apart := case when v_sweep.late is not true then interval '1 second'
    when v_sweep.late_since <= p_now - interval '1 second' then interval '250 milliseconds' else interval '0' end;
  if v_sweep.swept_at > p_now - v_apart then
    return null;
  end if;
  if v_sweep.queue is null then
    insert into jobforge.sweeps (queue, lanes, swept_at, full_at, low, mark_at, mark_xid)
    values (p_queue, p_lanes, p_now, p_now, '-infinity', p_now, pg_snapshot_xmax(v_snapshot))
    on conflict do nothing;
    return '-infinity';
  end if;
  -- Whoever writes a job writes a run_at that is not in its past. So once every transaction that could have been
  -- writing at the mark has ended, nothing can appear any more before the mark (less what a statement may take from
  -- reading the clock to its first write), but for what is due and not ready yet: more than claims promote at a time.
  -- What breaks the rule, a claim rolled back, is found once a minute.
  -- In the order of jobs_future, and not their least: that might be looked for among all of them.
  v_due := (select f.run_at from jobforge.jobs f
            where f.status = 'queued' and not f.ready and not f.taken and f.finished_at is null and f.run_at <= p_now
            order by f.run_at, f.tenant_id, f.id limit 1);
  update jobforge.sweeps s set swept_at = p_now, low_before = held.low,
    late = false, late_since = case when s.late then s.late_since end,
    full_at = case when v_full then p_now else s.full_at end,
    low = case when pg_snapshot_xmin(v_snapshot) >= s.mark_xid then least(s.mark_at - interval '5 seconds', v_due) else s.low end,
    mark_at = case when pg_snapshot_xmin(v_snapshot) >= s.mark_xid then p_now else s.mark_at end,
    mark_xid = case when pg_snapshot_xmin(v_snapshot) >= s.mark_xid then pg_snapshot_xmax(v_snapshot) else s.mark_xid end
  from (select x.ctid as place, x.low, x.low_before from jobforge.sweeps x where x.queue = p_queue and x.lanes = p_lanes
        for no key update skip locked) as held
  where s.queue = p_queue and s.lanes = p_lanes and s.swept_at = v_sweep.swept_at and s.ctid = held.place
  -- As it is now: what went back since the look above has lowered it. And as it was before the last sweep: that may have been
  -- of a claimer that had no position of a late job's tenant, and did not come to it either.
  returning least(held.low, held.low_before) into v_sweep.low;
  if not found then
    return null;
  end if;
  return case when v_full then '-infinity' else v_sweep.low end;
end
$$;
comment on function jobforge.sweep(text, text, timestamptz) is
  'For the one claimer of a second: the run_at from which late comers may still have appeared behind the positions.';
