-- owner: jf_sys
-- Claim: reserved work first, then tenants in turn, each by priority, run_at, id. The plan is told in sql/README.md.

create or replace function jobforge.claim_jobs(
  p_worker_id text, p_queues text[], p_types text[], p_limit integer default 1, p_lease_id uuid default null,
  p_lease_seconds integer default 30, p_window integer default null, p_cursor jsonb default null,
  p_new_lease_id uuid default null, p_free integer default null, p_quick boolean default false)
returns setof jobforge.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  -- A number before the first look: whoever sets a limit then knows a claim that did not see it (count_runs).
  v_xid constant xid8 := pg_current_xact_id();
  -- How many ready jobs are counted. 0: the claim has positions, or is malformed.
  v_few constant integer := case
    when p_worker_id is not null and p_limit between 1 and 5000 and (p_free >= 0) is not false and (p_window >= 1) is not false
      and p_queues[1] is not null and p_queues[0] is null and p_types[0] is null and cardinality(p_queues) <= 50 and array_position(p_queues, null) is null
      and p_types[1] is not null and cardinality(p_types) <= 500 and array_position(p_types, null) is null
      and jobforge.is_plain(p_cursor) and p_quick is not null then least(p_limit, 32) + 1
    else 0 end;
  v_look record;
  v_job jobforge.claimed;
begin
  if v_few = 0 then perform jobforge.require_claim(p_worker_id, p_queues, p_types, p_limit, p_cursor, p_free, p_window, p_quick); end if;
  v_look := jobforge.look_around(p_lease_id, p_window, p_queues, p_types, v_few, v_now);

  -- The one job of an idle system is taken at once: there is nobody to share with.
  if cardinality(v_look.ready) < least(v_few, 2) and array_position(v_look.ready, null) is null and not v_look.due
    and not v_look.held and (v_look.lease).id is not null then
    if v_look.ready[1] is not null then
      v_job := jobforge.take_one(v_look.lease, v_look.ready[1], p_queues, p_types, v_now);
      if v_job.id is not null then return next v_job; end if;
    end if;
    return next row(p_lease_id, (v_look.lease).expires_at, false, null, null, null, null, null, null, null, null, null, null,
      null, null, null, null, null, null, coalesce(v_job.tenant_id, (p_cursor ->> 'turn')::uuid),
      v_look.ready[1] is not null and v_job.id is null, false, (p_cursor ->> 'owed')::integer, null)::jobforge.claimed;
    return;
  end if;

  -- Of a lane that is named twice every job would be met twice, and charged to its limits twice.
  if p_queues[2] is not null then p_queues := jobforge.once_each(p_queues); end if;
  if p_types[2] is not null then p_types := jobforge.once_each(p_types); end if;
  declare
    v_session jobforge.leases; v_lease jobforge.leases; v_survey record; v_gated boolean;
    v_gate jobforge.claim_gate := row(p_queues, p_types, '{}', false, false, false, '{}');
    v_marks jobforge.claim_mark[]; v_stage text := 'turn'; v_turn jobforge.claim_turn; v_rounds integer := 8;
    v_pick record; v_stays boolean; v_limited boolean; v_seen boolean := false;
    v_claim bigint; v_retry_at timestamptz;
    v_left integer := p_limit; v_free integer := least(p_free, p_limit); v_solo integer := 0;
  begin
    v_session := case when (v_look.lease).id is not null then v_look.lease else jobforge.hold_lease(p_lease_id, p_new_lease_id,
      p_worker_id, coalesce(p_window, case when p_lease_id is null then p_limit end), p_lease_seconds, v_now) end;
    if v_look.due then perform jobforge.promote(v_now, 1000); end if; -- before the looks below: it may be all there is
    v_survey := jobforge.survey(p_queues, p_types);
    v_gated := v_look.held or v_survey.gated;
    v_turn.at := (p_cursor ->> 'turn')::uuid; v_turn.owed := (p_cursor ->> 'owed')::integer;
    -- A worker of one tenant has few rows to walk, and its sweep would be of no use to the others.
    if v_session.tenant_id is null and v_few = 0 then
      v_marks := jobforge.trusted_marks(p_cursor -> 'marks', p_queues, p_types, v_now);
    end if;
    if v_gated then v_gate := jobforge.gate(p_queues, p_types, v_now); end if;
    if v_look.due or v_survey.apart then
      v_stage := 'suspect';
    elsif cardinality(v_look.ready) < v_few and not v_gated and v_session.tenant_id is null then
      v_stage := 'few'; -- all of it can be had
    end if;

    while v_left > 0 and cardinality(v_gate.queues) > 0 and cardinality(v_gate.types) > 0 loop
      v_lease := v_session; v_limited := false; v_stays := false;
      if v_stage = 'suspect' then
        v_pick := jobforge.pick_suspect(v_session, v_gate, v_free, v_now);
        v_gate.rooms := v_pick.rooms; v_free := v_free - v_pick.limited;
        if cardinality(v_pick.places) > 0 then
          v_lease := jobforge.solo_lease(v_session, v_now);
          v_solo := 1;
          v_limited := v_pick.limited > 0;
        end if;
        v_stage := 'reserved';
      elsif v_stage = 'reserved' then
        if v_gated then
          v_pick := jobforge.pick_reserved_limited(v_session, v_gate, v_left, v_free, v_now);
          v_gate.rooms := v_pick.rooms;
          v_free := v_free - v_pick.limited;
          v_limited := v_pick.limited > 0;
        else
          v_pick := jobforge.pick_reserved(v_session, v_gate, v_left);
        end if;
        v_stage := 'turn';
      elsif v_stage = 'few' then
        exit when cardinality(v_look.ready) = 0;
        v_pick := jobforge.pick_few(p_queues, p_types, v_turn.at, cardinality(v_look.ready));
        v_turn.at := coalesce(v_pick.tenant_ids[1], v_turn.at);
        v_turn.everybody := true; v_seen := true; v_stays := p_quick;
        v_stage := 'turn';
      elsif v_stage = 'turn' then
        -- Others may hold what a turn had: an answer is not short for that.
        exit when (v_turn.everybody and v_turn.listed is not true) or v_rounds = 0;
        v_rounds := v_rounds - 1;
        v_turn := jobforge.take_turns(v_gate, v_session.tenant_id, v_turn, v_left, v_marks, v_now);
        v_seen := v_seen or v_turn.seen;
        v_gate.rooms := jobforge.merge_rooms(v_gate.rooms, v_turn.rooms);
        v_stage := case when cardinality(v_turn.tenants) = 0 then 'turn' when v_gated then 'limited' else 'share' end;
        continue;
      elsif v_stage = 'limited' then
        v_pick := jobforge.pick_limited(v_gate, v_turn, least(v_left, v_free), v_now);
        v_turn.quanta := v_pick.quanta;
        v_turn.hungry := v_pick.hungry;
        v_gate.rooms := v_pick.rooms;
        v_free := v_free - cardinality(v_pick.places);
        v_limited := true;
        v_stage := 'share';
      else
        -- Everybody in the turn gets a share. What is left then goes to the next tenants, or, once everybody was there, to
        -- those who took all of theirs.
        v_pick := jobforge.pick_turn(v_gate, v_turn, v_left, v_marks);
        v_stays := p_quick;
        v_turn := jobforge.share_left(v_turn, v_gate.weighted, v_pick.hungry, v_left - coalesce(cardinality(v_pick.places), 0));
        v_stage := case when cardinality(v_turn.tenants) = 0 then 'turn' when v_gated then 'limited' else 'share' end;
      end if;
      continue when coalesce(cardinality(v_pick.places), 0) = 0;

      v_claim := nextval('jobforge.claim_numbers');
      insert into jobforge.lease_claims (lease_id, claim_no, tenant_ids, job_ids)
      values (v_lease.id, v_claim, v_pick.tenant_ids, v_pick.job_ids);
      -- One array is walked in the order of the pages, for less; where the jobs lie in their order, it is the same.
      if v_pick.places = array(select p from unnest(v_pick.places) as p order by p) then
        return query
        update jobforge.jobs j
        set status = 'running', ready = v_stays, taken = not v_stays, lease_id = v_lease.id, worker_no = v_lease.worker_no,
          fence = j.fence + 1, started_at = v_now
        where j.ctid = any (v_pick.places)
        returning (jobforge.as_claimed(j, j.ctid, v_lease.id, v_lease.expires_at, v_lease.solo, v_claim, v_limited,
          v_survey.timeouts[array_position(p_types, j.type)])).*;
      else
        return query
        update jobforge.jobs j
        set status = 'running', ready = v_stays, taken = not v_stays, lease_id = v_lease.id, worker_no = v_lease.worker_no,
          fence = j.fence + 1, started_at = v_now
        from unnest(v_pick.places) as p(place) where j.ctid = p.place
        returning (jobforge.as_claimed(j, j.ctid, v_lease.id, v_lease.expires_at, v_lease.solo, v_claim, v_limited,
          v_survey.timeouts[array_position(p_types, j.type)])).*;
      end if;
      if v_limited then
        v_retry_at := least(v_retry_at, jobforge.charge(v_lease.id, v_pick.tenant_ids, v_pick.job_ids, v_now));
      end if;
      v_left := v_left - cardinality(v_pick.places);
    end loop;

    if v_marks is not null and v_turn.everybody is not true then
      perform jobforge.sweep_on(v_gate, p_cursor, v_marks, p_types, v_now);
    end if;
    if p_lease_id is null and v_left + v_solo < p_limit then perform jobforge.keep_lease(v_session); end if;
    return next row(v_session.id, v_session.expires_at, false, null, null, null, null, null, null, null, null, null, null, null,
      null, null, null, null, null, v_turn.at, v_left = p_limit and v_seen and not v_gated,
      v_gate.rooms ?| array['full', 'busy'] or (v_left = p_limit and v_seen and v_gated), v_turn.owed,
      least(v_retry_at, (v_gate.rooms ->> 'retry_at')::timestamptz))::jobforge.claimed;
  end;
end
$$;
comment on function jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb, uuid, integer, boolean) is
  'Takes up to p_limit jobs onto a lease, in the order in which they shall start; of work under a limit at most p_free, what '
  'can start at once. p_window (p_limit if it is null) is for a new lease, and widens a living one. With p_quick they will be '
  'over at once, and stay in the claim''s order meanwhile: others walk past them. '
  'The last row has no id: it tells the lease''s expiry, the tenant to go on at (turn) and what it is owed, whether others hold '
  'work locked (more), whether limits hold work back (limited), and when a rate lets more start (retry_at).';
grant execute on function
  jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb, uuid, integer, boolean) to jf_worker;

create or replace function jobforge.is_plain(p_cursor jsonb) returns boolean
language sql immutable
as $$
  -- The turn as require_claim has it, in a quarter of the time.
  select (p_cursor @> '{}') is not false and (p_cursor -> 'marks' in ('null', '[]')) is not false
    and (p_cursor ->> 'turn' ~ '^[0-9A-Fa-f]+-[0-9A-Fa-f]+-[0-9A-Fa-f]+-[0-9A-Fa-f]+-[0-9A-Fa-f]+$'
      and p_cursor ->> 'turn' like '________-____-____-____-____________') is not false
    and (p_cursor ->> 'owed' ~ '^[0-9]+$' and length(p_cursor ->> 'owed') < 10) is not false
$$;
comment on function jobforge.is_plain(jsonb) is
  'Whether a cursor is sound and without positions, or none. One expression: the planner puts it in the place of its call.';

create or replace function jobforge.as_claimed(
  p_job jobforge.jobs, p_place tid, p_lease_id uuid, p_expires_at timestamptz, p_solo boolean, p_claim_no bigint,
  p_limited boolean, p_timeout integer) returns jobforge.claimed
language sql immutable
as $$
  -- One expression: the planner puts it in the place of its call, column by column.
  select row(p_lease_id, p_expires_at, p_solo, p_claim_no, p_job.tenant_id, p_job.id, p_job.type, p_job.queue, p_job.priority,
    p_job.run_at, p_job.fence, p_job.failures, p_job.deaths, p_job.max_attempts, p_timeout, p_job.correlation_id,
    p_job.traceparent, p_job.payload, p_place, null, false, p_limited, null, null)::jobforge.claimed
$$;
comment on function jobforge.as_claimed(jobforge.jobs, tid, uuid, timestamptz, boolean, bigint, boolean, integer) is
  'A job as a claim answers with it.';
