-- owner: jf_sys
-- Limits: how much room a tenant, a definition or a concurrency key has, exactly, under a try-lock held for the claim.
-- Work under no limit never comes here.

create or replace function jobforge.admit(
  inout p_rooms jsonb, p_tenant_id uuid, p_type text, p_key text, p_now timestamptz, out hindrance text)
language plpgsql volatile
as $$
declare
  v_limit record;
  v_room record;
begin
  for v_limit in select * from jobforge.limits_of(p_tenant_id, p_type, p_key) loop
    if not p_rooms ? v_limit.slot then
      -- One claimer at a time counts and takes; whoever comes second leaves this work to it.
      if pg_try_advisory_xact_lock(hashtextextended('jobforge limit ' || v_limit.slot, 0)) then
        perform jobforge.count_runs(v_limit.kind, v_limit.name, v_limit.since);
        v_room := jobforge.limit_room(v_limit.kind, v_limit.name, v_limit.most, v_limit.rate, v_limit.burst, p_now);
        p_rooms := p_rooms || jsonb_build_object(v_limit.slot, v_room.room, 'retry_at',
          least((p_rooms ->> 'retry_at')::timestamptz, v_room.retry_at));
      else
        p_rooms := p_rooms || jsonb_build_object(v_limit.slot, 0, 'busy', true);
      end if;
    end if;
    if (p_rooms ->> v_limit.slot)::integer <= 0 then
      p_rooms := p_rooms || '{"full": true}';
      hindrance := v_limit.kind;
      return;
    end if;
  end loop;
  p_rooms := p_rooms || coalesce((
    select jsonb_object_agg(l.slot, (p_rooms ->> l.slot)::integer - 1)
    from jobforge.limits_of(p_tenant_id, p_type, p_key) as l), '{}');
end
$$;
comment on function jobforge.admit(jsonb, uuid, text, text, timestamptz) is
  'Takes one place of each limit that applies to a job, or tells which has none left. p_rooms carries what this claim knows: '
  'the room per limit, whether another claimer holds one (busy), and when the next token is there (retry_at).';

create or replace function jobforge.give_room_back(p_rooms jsonb, p_tenant_id uuid, p_type text, p_key text) returns jsonb
language sql stable
as $$
  select p_rooms || coalesce((
    select jsonb_object_agg(l.slot, (p_rooms ->> l.slot)::integer + 1)
    from jobforge.limits_of(p_tenant_id, p_type, p_key) as l where p_rooms ? l.slot), '{}')
$$;
comment on function jobforge.give_room_back(jsonb, uuid, text, text) is
  'Undoes an admission: the job turned out to be in other hands.';

create or replace function jobforge.merge_rooms(p_rooms jsonb, p_more jsonb) returns jsonb
language sql immutable
as $$
  select p_rooms || p_more || jsonb_build_object('retry_at',
    least((p_rooms ->> 'retry_at')::timestamptz, (p_more ->> 'retry_at')::timestamptz))
$$;
comment on function jobforge.merge_rooms(jsonb, jsonb) is 'What is known of limits from two looks; the earlier token counts.';

create or replace function jobforge.limits_of(p_tenant_id uuid, p_type text, p_key text)
returns table (kind text, name text, slot text, most integer, rate double precision, burst integer, since xid8)
language sql stable
as $$
  select 'tenant', t.id::text, 'tenant ' || t.id::text, t.max_in_flight, t.rate_per_second, t.rate_burst, t.limited_since
  from jobforge.tenants t
  where t.id = p_tenant_id and (t.max_in_flight is not null or t.rate_per_second is not null)
  union all
  select 'definition', d.key, 'definition ' || d.key, d.max_in_flight, d.rate_per_second, d.rate_burst, d.limited_since
  from jobforge.definitions d
  where d.key = p_type and (d.max_in_flight is not null or d.rate_per_second is not null)
  union all
  select 'key', p_tenant_id || '/' || p_key, 'key ' || p_tenant_id || '/' || p_key,
    coalesce((select d.max_in_flight_per_key from jobforge.definitions d where d.key = p_type), 1), null, null, null
  where p_key is not null
$$;
comment on function jobforge.limits_of(uuid, text, text) is 'The limits that apply to a job: its tenant''s, its type''s, its key''s.';

create or replace function jobforge.limit_room(
  p_kind text, p_name text, p_most integer, p_rate double precision, p_burst integer, p_now timestamptz,
  out room integer, out retry_at timestamptz)
language plpgsql volatile
as $$
declare
  v_tokens double precision;
begin
  room := 1000000;
  if p_rate is not null then
    v_tokens := jobforge.tokens(p_kind, p_name, p_rate, p_burst, p_now);
    room := floor(v_tokens + 1e-9);
    if room = 0 then
      retry_at := jobforge.token_at(v_tokens, p_rate, p_now);
      return;
    end if;
  end if;
  if p_most is not null then
    room := least(room, greatest(p_most - jobforge.runs_of(p_kind, p_name), 0));
  end if;
end
$$;
comment on function jobforge.limit_room(text, text, integer, double precision, integer, timestamptz) is
  'How many jobs a limit lets start now, and, where its rate has none, when the next.';

create or replace function jobforge.tokens(
  p_kind text, p_name text, p_rate double precision, p_burst integer, p_now timestamptz) returns double precision
language sql stable
as $$
  select coalesce(
    (select least(f.burst, b.tokens + p_rate * greatest(extract(epoch from p_now - b.filled_at), 0))
     from jobforge.limit_buckets b where b.kind = p_kind and b.name = p_name), f.burst)
  from (select jobforge.burst(p_rate, p_burst)) as f(burst)
$$;
comment on function jobforge.tokens(text, text, double precision, integer, timestamptz) is 'What a token bucket holds now.';

create or replace function jobforge.burst(p_rate double precision, p_burst integer) returns double precision
language sql immutable
as $$
  -- Without a burst of its own a bucket holds a tenth of a second's worth, so that a rate is one from the start, and one
  -- more: what lies in it as a fraction is not lost on who comes each tenth of a second.
  select coalesce(p_burst, 1 + floor(p_rate / 10))
$$;
comment on function jobforge.burst(double precision, integer) is 'How many tokens a bucket holds at most.';
grant execute on function jobforge.burst(double precision, integer) to jf_fn;

create or replace function jobforge.token_at(p_tokens double precision, p_rate double precision, p_now timestamptz)
returns timestamptz
language sql immutable
as $$
  -- Up to the next microsecond: a moment earlier the token is not there, and the same moment would be asked for again.
  select p_now + ceil((1 - p_tokens) / p_rate * 1000000) * interval '1 microsecond'
$$;
comment on function jobforge.token_at(double precision, double precision, timestamptz) is 'When a bucket has a whole token.';

create or replace function jobforge.runs_of(p_kind text, p_name text) returns integer
language sql volatile
as $$
  select count(*)::integer from jobforge.limited_runs r
  cross join lateral (
    select from jobforge.jobs j
    where j.tenant_id = r.tenant_id and j.id = r.job_id and j.lease_id = r.lease_id and j.fence = r.fence offset 0) as j
  where r.kind = p_kind and r.name = p_name
$$;
comment on function jobforge.runs_of(text, text) is
  'How many jobs run that count against a limit: those noted whose row still says so.';

create or replace function jobforge.count_runs(p_kind text, p_name text, p_since xid8) returns void
language plpgsql volatile
as $$
declare
  v_snapshot constant pg_snapshot := pg_current_snapshot();
begin
  -- What an operator's open transaction forgets is not waited for.
  delete from jobforge.limited_runs d
  where d.ctid = any (array(
    select r.ctid from jobforge.limited_runs r
    where r.kind = p_kind and r.name = p_name and not exists (
      select from jobforge.jobs j
      where j.tenant_id = r.tenant_id and j.id = r.job_id and j.lease_id = r.lease_id and j.fence = r.fence)
    for update of r skip locked));
  if p_since is null then
    return;
  end if;
  -- The limit is new: what runs without having been noted is noted now, and again as long as a claim is under way that
  -- may not have seen it: one that had its number before the first look at the limit.
  insert into jobforge.limited_runs (kind, name, tenant_id, job_id, lease_id, fence)
  select p_kind, p_name, j.tenant_id, j.id, j.lease_id, j.fence
  from jobforge.lease_claims c
  cross join unnest(c.tenant_ids, c.job_ids) as u(tenant_id, id)
  cross join lateral (
    select k.tenant_id, k.id, k.lease_id, k.fence, k.type from jobforge.jobs k
    where k.tenant_id = u.tenant_id and k.id = u.id and k.lease_id = c.lease_id offset 0) as j
  where case p_kind when 'tenant' then u.tenant_id::text else j.type end = p_name
  on conflict do nothing;
  if p_since = '18446744073709551615' then
    perform jobforge.note_first_look(p_kind, p_name);
  elsif pg_snapshot_xmin(v_snapshot) >= p_since then
    perform jobforge.move_limited_since(p_kind, p_name, p_since, null);
  end if;
end
$$;
comment on function jobforge.count_runs(text, text, xid8) is
  'Sweeps out runs that ended and, after a limit was set, notes those that began before it.';

create or replace function jobforge.note_first_look(p_kind text, p_name text) returns void
language plpgsql volatile
as $$
declare
  v_all constant xid8 := '18446744073709551615';
  v_top constant numeric := pg_current_xact_id()::text::numeric;
  v_row bigint;
begin
  -- The block is there for its number: a subtransaction's is the latest of all, and the row that it writes tells it. A
  -- snapshot would tell the latest that ended, and claims under way may have later ones.
  begin
    v_row := jobforge.move_limited_since(p_kind, p_name, v_all, v_all);
  exception when no_data_found then
    raise;
  end;
  if v_row is not null then
    perform jobforge.move_limited_since(p_kind, p_name, v_all,
      (v_top + mod(v_row - mod(v_top, 4294967296) + 4294967296, 4294967296))::text::xid8);
  end if;
end
$$;
comment on function jobforge.note_first_look(text, text) is
  'Notes a number before which all transactions have theirs that may not have seen a new limit.';

create or replace function jobforge.move_limited_since(p_kind text, p_name text, p_from xid8, p_to xid8) returns bigint
language plpgsql volatile
as $$
declare
  v_row bigint;
begin
  -- An operator whose transaction holds the row is not waited for: the next claim comes here again.
  if p_kind = 'tenant' then
    update jobforge.tenants t set limited_since = p_to
    where t.ctid = (select x.ctid from jobforge.tenants x where x.id = p_name::uuid and x.limited_since = p_from
      for no key update skip locked)
    returning t.xmin::text::bigint into v_row;
  else
    update jobforge.definitions d set limited_since = p_to
    where d.ctid = (select x.ctid from jobforge.definitions x where x.key = p_name and x.limited_since = p_from
      for no key update skip locked)
    returning d.xmin::text::bigint into v_row;
  end if;
  return v_row;
end
$$;
comment on function jobforge.move_limited_since(text, text, xid8, xid8) is
  'Changes limited_since if it is still p_from and nobody holds the row; answers with the number that wrote it.';

create or replace function jobforge.charge(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_now timestamptz, out retry_at timestamptz)
language plpgsql volatile
as $$
declare
  v_limit record;
  v_tokens double precision;
begin
  insert into jobforge.limited_runs as r (kind, name, tenant_id, job_id, lease_id, fence)
  select l.kind, l.name, j.tenant_id, j.id, p_lease_id, j.fence
  from unnest(p_tenant_ids, p_job_ids) as u(tenant_id, id)
  cross join lateral (
    select k.tenant_id, k.id, k.fence, k.type, k.concurrency_key from jobforge.jobs k
    where k.tenant_id = u.tenant_id and k.id = u.id offset 0) as j
  cross join lateral jobforge.limits_of(j.tenant_id, j.type, j.concurrency_key) as l
  where l.most is not null
  on conflict (kind, name, tenant_id, job_id) do update set lease_id = excluded.lease_id, fence = excluded.fence;
  for v_limit in
    select l.kind, l.name, l.rate, l.burst, count(*) as jobs
    from unnest(p_tenant_ids, p_job_ids) as u(tenant_id, id)
    cross join lateral (
      select k.type from jobforge.jobs k where k.tenant_id = u.tenant_id and k.id = u.id offset 0) as j
    cross join lateral jobforge.limits_of(u.tenant_id, j.type, null) as l
    where l.rate is not null
    group by l.kind, l.name, l.rate, l.burst
  loop
    v_tokens := jobforge.tokens(v_limit.kind, v_limit.name, v_limit.rate, v_limit.burst, p_now) - v_limit.jobs;
    if v_tokens + 1e-9 < 1 then
      retry_at := least(retry_at, jobforge.token_at(v_tokens, v_limit.rate, p_now));
    end if;
    insert into jobforge.limit_buckets as b (kind, name, tokens, filled_at)
    values (v_limit.kind, v_limit.name, v_tokens, p_now)
    on conflict (kind, name) do update set tokens = excluded.tokens, filled_at = excluded.filled_at;
  end loop;
end
$$;
comment on function jobforge.charge(uuid, uuid[], uuid[], timestamptz) is
  'Notes claimed jobs as runs of their limits and takes their tokens; tells when an emptied bucket has one again.';
