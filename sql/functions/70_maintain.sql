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
  v_held record;
  v_started integer;
  v_back record;
  v_queues text[] := '{}';
  v_run_ats timestamptz[] := '{}';
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  perform jobforge.notice_outage(v_now);
  leases := 0; free := 0; deaths := 0;
  for v_lease in
    select l.* from jobforge.leases l where l.expires_at <= v_now order by l.expires_at limit p_limit for update skip locked
  loop
    v_held := jobforge.held_jobs(v_lease.id);
    v_started := least(v_lease.window_size, coalesce(cardinality(v_held.job_ids), 0));
    -- The buffer starts in claim order: what lies behind the window had not started, and goes back free.
    perform jobforge.bury(v_lease, v_held.tenant_ids[:v_started], v_held.job_ids[:v_started], v_now);
    v_back := jobforge.hand_back(v_lease.id, v_held.tenant_ids[v_started + 1:], v_held.job_ids[v_started + 1:], v_now);
    free := free + v_back.requeued;
    v_queues := v_queues || v_back.queues;
    v_run_ats := v_run_ats || v_back.run_ats;
    deaths := deaths + v_started;
    leases := leases + 1;
    delete from jobforge.lease_claims c where c.lease_id = v_lease.id;
    delete from jobforge.leases l where l.id = v_lease.id;
  end loop;
  perform jobforge.look_behind(v_queues, v_run_ats);
  next_expiry := (select min(l.expires_at) from jobforge.leases l);
  return next;
end
$$;
comment on function jobforge.reap(bigint, integer) is
  'Takes expired leases back: what may have started counts a death and is settled, the rest goes back free.';
grant execute on function jobforge.reap(bigint, integer) to jf_operator;

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
