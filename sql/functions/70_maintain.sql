-- owner: jf_sys
-- Upkeep, by one leader under a term. Every duty is idempotent and bounded; leadership is an optimisation.

create or replace function jobforge.lead(p_holder text, p_seconds integer default 10)
returns table (term bigint, leads boolean, expires_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  if p_holder is null or length(p_holder) not between 1 and 200 then
    perform jobforge.refuse('JF001', 'holder_malformed', 'p_holder must have 1 to 200 characters');
  elsif p_seconds is null or p_seconds not between 1 and 600 then
    perform jobforge.refuse('JF001', 'lease_out_of_range', 'p_seconds must be 1 to 600');
  end if;
  perform jobforge.notice_outage(v_now);
  return query
  update jobforge.leader l
  set holder = case when l.holder = p_holder or l.expires_at <= v_now then p_holder else l.holder end,
    term = l.term + (l.expires_at <= v_now)::integer,
    expires_at = case when l.holder = p_holder or l.expires_at <= v_now
      then v_now + make_interval(secs => p_seconds) else l.expires_at end,
    alive_at = v_now
  returning l.term, l.holder = p_holder, l.expires_at;
end
$$;
comment on function jobforge.lead(text, integer) is
  'Takes or keeps the leadership; the term grows with every taking. Whoever asks, the liveness is refreshed.';
grant execute on function jobforge.lead(text, integer) to jf_operator;

create or replace function jobforge.resign(p_holder text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update jobforge.leader l set expires_at = '-infinity' where l.holder = p_holder;
  return found;
end
$$;
comment on function jobforge.resign(text) is 'Gives the leadership up, so that the next one waits for nothing.';
grant execute on function jobforge.resign(text) to jf_operator;

create or replace function jobforge.require_term(p_term bigint) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- A leader that slept through its lease acts under its term or not at all.
  if not exists (select from jobforge.leader l where l.term = p_term and l.expires_at > jobforge.clock()) then
    perform jobforge.refuse('JF006', 'term_over', format('term %s is over', p_term));
  end if;
end
$$;
comment on function jobforge.require_term(bigint) is 'Refuses a duty whose leader no longer leads.';
grant execute on function jobforge.require_term(bigint) to jf_owner;

create or replace function jobforge.reap(p_term bigint, p_limit integer default 100)
returns table (leases integer, free integer, deaths integer, next_expiry timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_lease jobforge.leases;
  v_back record;
  v_queues text[] := '{}';
  v_run_ats timestamptz[] := '{}';
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  perform jobforge.notice_outage(v_now);
  leases := 0; free := 0; deaths := 0;
  for v_lease in
    select l.* from jobforge.leases l where l.expires_at <= v_now
    -- What had to be left comes last, and in turn: however much of it there is, it keeps no other lease waiting.
    order by jobforge.is_left(l.expires_at), l.expires_at limit p_limit for update skip locked
  loop
    v_back := jobforge.reap_lease(v_lease, v_now);
    leases := leases + v_back.leases;
    free := free + v_back.free;
    deaths := deaths + v_back.deaths;
    v_queues := v_queues || v_back.queues;
    v_run_ats := v_run_ats || v_back.run_ats;
  end loop;
  perform jobforge.look_behind(v_queues, v_run_ats);
  next_expiry := (select min(l.expires_at) from jobforge.leases l where not jobforge.is_left(l.expires_at));
  -- Nothing tells when a job that somebody holds is let go: it is looked for once a second.
  if exists (select from jobforge.leases l where jobforge.is_left(l.expires_at)) then
    next_expiry := least(next_expiry, v_now + interval '1 second');
  end if;
  return next;
end
$$;
comment on function jobforge.reap(bigint, integer) is
  'Takes expired leases back: what may have started counts a death and is settled, the rest goes back free. Jobs that somebody '
  'holds locked stay for a later call, with their lease; a lease counts when nothing is left of it. next_expiry tells when there is '
  'more to do: when the next lease runs out, or in a second where something was left.';
grant execute on function jobforge.reap(bigint, integer) to jf_operator;

create or replace function jobforge.reap_lease(
  p_lease jobforge.leases, p_now timestamptz,
  out leases integer, out free integer, out deaths integer, out queues text[], out run_ats timestamptz[])
language plpgsql volatile
as $$
declare
  v_held record;
  v_all integer;
  v_started integer;
  v_taken record;
  v_back record;
begin
  v_held := jobforge.held_jobs(p_lease.id);
  v_all := coalesce(cardinality(v_held.job_ids), 0);
  -- The buffer starts in claim order: what lies behind the window had not started, and goes back free.
  v_started := least(v_all, case when jobforge.is_left(p_lease.expires_at) then jobforge.left_started(p_lease.id)
    else p_lease.window_size end);
  v_taken := jobforge.hold_unlocked(p_lease.id, v_held.tenant_ids, v_held.job_ids);
  deaths := (select count(*) from unnest(v_taken.ats) as t(at) where t.at <= v_started);
  perform jobforge.bury(p_lease, v_taken.tenant_ids[:deaths], v_taken.job_ids[:deaths], p_now);
  v_back := jobforge.hand_back_at(p_lease.id, v_taken.places[deaths + 1:], p_now);
  free := v_back.requeued; queues := v_back.queues; run_ats := v_back.run_ats;
  delete from jobforge.lease_claims c where c.lease_id = p_lease.id;
  leases := (coalesce(cardinality(v_taken.ats), 0) = v_all)::integer;
  if leases = 1 then
    delete from jobforge.leases l where l.id = p_lease.id;
  else
    perform jobforge.leave(p_lease.id, v_held.tenant_ids, v_held.job_ids, v_taken.ats, v_started, p_now);
  end if;
end
$$;
comment on function jobforge.reap_lease(jobforge.leases, timestamptz) is
  'Takes back what a lost lease holds, but for the jobs that somebody else has locked; leases is 1 if it is over with that.';

create or replace function jobforge.leave(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_taken integer[], p_started integer, p_now timestamptz)
returns void
language plpgsql volatile
as $$
begin
  insert into jobforge.lease_claims (lease_id, claim_no, tenant_ids, job_ids)
  select p_lease_id, (u.at > p_started)::integer, array_agg(u.tenant_id order by u.at), array_agg(u.id order by u.at)
  from unnest(p_tenant_ids, p_job_ids) with ordinality as u(tenant_id, id, at)
  where u.at not in (select t.at from unnest(p_taken) as t(at))
  group by u.at > p_started;
  -- Longer ago than anybody's clock: no beat, claim or report that began before it ran out, and no outage, brings it back.
  update jobforge.leases l set expires_at = p_now - interval '1000 years' where l.id = p_lease_id;
end
$$;
comment on function jobforge.leave(uuid, uuid[], uuid[], integer[], integer, timestamptz) is
  'Keeps a lost lease for those of its jobs that were not taken back: claim 0 are those of the first p_started, which may have '
  'started, claim 1 the others. Its own claims are gone by then.';

create or replace function jobforge.left_started(p_lease_id uuid) returns integer
language sql stable
as $$
  select coalesce(sum(cardinality(c.job_ids)), 0)::integer
  from jobforge.lease_claims c where c.lease_id = p_lease_id and c.claim_no = 0
$$;
comment on function jobforge.left_started(uuid) is 'How many of the jobs with which a lost lease was left may have started.';

create or replace function jobforge.is_left(p_expires_at timestamptz) returns boolean
language sql immutable
as $$ select p_expires_at < timestamptz '1900-01-01 00:00:00+00' $$;
comment on function jobforge.is_left(timestamptz) is
  'Whether this is the expiry of a lost lease that was left with what somebody held: when that was last looked at, less 1000 years.';
grant execute on function jobforge.is_left(timestamptz) to jf_fn;

create or replace function jobforge.ran_out_at(p_expires_at timestamptz, p_beat_at timestamptz, p_ttl_seconds integer)
returns timestamptz
language sql immutable
as $$
  select case when jobforge.is_left(p_expires_at) then p_beat_at + make_interval(secs => p_ttl_seconds) else p_expires_at end
$$;
comment on function jobforge.ran_out_at(timestamptz, timestamptz, integer) is
  'When a lease runs out, or did, as it is told to people.';
grant execute on function jobforge.ran_out_at(timestamptz, timestamptz, integer) to jf_fn;

create or replace function jobforge.bury(p_lease jobforge.leases, p_tenant_ids uuid[], p_job_ids uuid[], p_now timestamptz)
returns void
language plpgsql volatile
as $$
declare
  v_job record;
begin
  for v_job in
    select j.tenant_id, j.id, j.fence, j.started_at, j.worker_no
    from (select x.* from unnest(p_tenant_ids, p_job_ids) as x(tenant_id, id) order by x.tenant_id, x.id) as u
    cross join lateral (
      select k.tenant_id, k.id, k.fence, k.started_at, k.worker_no from jobforge.jobs k
      where k.tenant_id = u.tenant_id and k.id = u.id and k.lease_id = p_lease.id for no key update) as j
  loop
    perform jobforge.note_attempt(v_job.tenant_id, v_job.id, v_job.fence, 'lost', v_job.worker_no, v_job.started_at, p_now,
      null, 'the worker''s lease ran out', null, null, null);
    perform jobforge.apply_end(v_job.tenant_id, v_job.id, 'lost', 'the worker''s lease ran out', null, p_now);
  end loop;
end
$$;
comment on function jobforge.bury(jobforge.leases, uuid[], uuid[], timestamptz) is
  'Counts a death for each job that a lost lease may have started, and settles it.';

create or replace function jobforge.promote_due(p_term bigint, p_limit integer default 1000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_promoted integer;
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  v_promoted := jobforge.promote(v_now, p_limit);
  if v_promoted > 0 and exists (select from jobforge.sleepers s where s.expires_at > v_now) then
    perform pg_notify('jobforge_wake', '');
  end if;
  return v_promoted;
end
$$;
comment on function jobforge.promote_due(bigint, integer) is 'Makes due work ready and wakes the sleepers; claims do it too.';
grant execute on function jobforge.promote_due(bigint, integer) to jf_operator;

create or replace function jobforge.require_limit(p_limit integer) returns void
language plpgsql immutable
as $$
begin
  if p_limit is null or p_limit not between 1 and 10000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 10000');
  end if;
end
$$;
comment on function jobforge.require_limit(integer) is 'Refuses a batch limit outside 1 to 10000.';
grant execute on function jobforge.require_limit(integer) to jf_fn, jf_owner;
