-- owner: jf_sys
-- Pause and resume: a queue, a tenant or a definition, by whose hand, why, and until when.

create or replace function jobforge.pause(
  p_kind text, p_name text, p_reason text default '', p_until timestamptz default null, p_author text default null)
returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_pausable(p_kind, p_name);
  if p_until <= v_now then
    perform jobforge.refuse('JF001', 'until_in_the_past', 'p_until must lie ahead');
  elsif length(p_reason) > 500 or length(p_author) not between 1 and 255 then
    perform jobforge.refuse('JF001', 'reason_length', 'a reason has at most 500 characters, an author 1 to 255');
  end if;
  insert into jobforge.pauses as p (kind, name, reason, author, paused_at, until)
  values (p_kind, p_name, coalesce(p_reason, ''), coalesce(p_author, session_user), v_now, p_until)
  on conflict (kind, name) do update
  -- One that ran out and comes again is a new pause; one that is changed keeps its beginning.
  set reason = excluded.reason, author = excluded.author, until = excluded.until,
    paused_at = case when p.until <= v_now then v_now else p.paused_at end;
  perform jobforge.note_pause('pause', p_kind, p_name, jsonb_build_object('reason', p_reason, 'until', p_until,
    'author', p_author), v_now);
  return v_now;
end
$$;
comment on function jobforge.pause(text, text, text, timestamptz, text) is
  'Holds a queue, a tenant or a definition back: from the next claim on nothing of it starts, what runs goes on. '
  'With p_until it ends by itself.';
grant execute on function jobforge.pause(text, text, text, timestamptz, text) to jf_operator;

create or replace function jobforge.resume(p_kind text, p_name text, p_author text default null) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_held boolean;
begin
  perform jobforge.require_pausable(p_kind, p_name);
  delete from jobforge.pauses p where p.kind = p_kind and p.name = p_name
  returning p.until is null or p.until > v_now into v_held;
  if v_held then
    perform jobforge.note_pause('resume', p_kind, p_name, jsonb_build_object('author', p_author), v_now);
    perform pg_notify('jobforge_wake', '');
  end if;
  return coalesce(v_held, false);
end
$$;
comment on function jobforge.resume(text, text, text) is
  'Ends a pause and wakes the sleepers; false where nothing was paused.';
grant execute on function jobforge.resume(text, text, text) to jf_operator;

create or replace function jobforge.list_pauses(p_limit integer default 100)
returns table (kind text, name text, reason text, author text, paused_at timestamptz, until timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  return query
  select p.kind, p.name, p.reason, p.author, p.paused_at, p.until from jobforge.pauses p
  where p.until is null or p.until > v_now order by p.paused_at desc, p.kind, p.name limit p_limit;
end
$$;
comment on function jobforge.list_pauses(integer) is 'What is paused now, the latest first.';
grant execute on function jobforge.list_pauses(integer) to jf_operator;

create or replace function jobforge.require_pausable(p_kind text, p_name text) returns void
language plpgsql stable
as $$
begin
  if p_kind is null or p_kind not in ('queue', 'tenant', 'definition') then
    perform jobforge.refuse('JF001', 'kind_unknown', 'p_kind is queue, tenant or definition');
  elsif p_kind = 'queue' and coalesce(p_name, '') !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$' then
    perform jobforge.refuse('JF001', 'queue_malformed', 'a queue''s name has 1 to 63 letters, digits, dots, colons, dashes');
  elsif p_kind = 'tenant' and (p_name !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
      or not exists (select from jobforge.tenants t where t.id = p_name::uuid)) then
    perform jobforge.refuse('JF007', 'tenant_unknown', format('tenant %s is not known', p_name));
  elsif p_kind = 'definition' and not exists (select from jobforge.definitions d where d.key = p_name) then
    perform jobforge.refuse('JF002', 'unknown_definition', format('definition %s is not known', p_name));
  end if;
end
$$;
comment on function jobforge.require_pausable(text, text) is 'Refuses what is no queue, known tenant or known definition.';

create or replace function jobforge.note_pause(p_action text, p_kind text, p_name text, p_detail jsonb, p_now timestamptz)
returns void
language sql volatile
as $$
  -- What concerns no single tenant is the system tenant's.
  select jobforge.audit(case when p_kind = 'tenant' then p_name::uuid else '00000000-0000-0000-0000-000000000000' end,
    p_action, p_kind, p_name, p_detail || jsonb_build_object('kind', p_kind, 'name', p_name), p_now)
$$;
comment on function jobforge.note_pause(text, text, text, jsonb, timestamptz) is 'Writes down who paused or resumed what.';

create or replace function jobforge.is_paused(p_kind text, p_name text, p_now timestamptz) returns boolean
language sql stable
as $$
  select exists (select from jobforge.pauses p where p.kind = p_kind and p.name = p_name and (p.until is null or p.until > p_now))
$$;
comment on function jobforge.is_paused(text, text, timestamptz) is 'Whether a pause holds it now.';
