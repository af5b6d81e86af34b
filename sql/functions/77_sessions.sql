-- owner: jf_sys
-- Sessions of the web page: begun with an API key, found by the server that checks them, ended. They live no longer than
-- their key.

create or replace function jobforge.create_session(
  p_id_sha256 bytea, p_key_id text, p_lifetime interval default interval '12 hours') returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
  v_key record;
  v_end timestamptz;
begin
  if p_id_sha256 is null or octet_length(p_id_sha256) <> 32 then
    perform jobforge.refuse('JF001', 'session_hash_malformed', 'the hash of a session''s id must have 32 bytes');
  elsif p_lifetime is null or p_lifetime not between interval '1 minute' and interval '7 days' then
    perform jobforge.refuse('JF001', 'lifetime_out_of_range', 'a session lives a minute to 7 days');
  end if;
  select k.tenant_id, k.expires_at into v_key from jobforge.api_keys k
  where k.id = p_key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > v_now)
    and (v_bound is null or k.tenant_id = v_bound)
  for share;
  if not found then
    perform jobforge.refuse('JF007', 'api_key_unknown', format('create_session: key %s is not known', p_key_id));
  end if;
  -- Here, so that nobody else has to: as many leave as come, and more.
  delete from jobforge.sessions s where s.id_sha256 in (
    select o.id_sha256 from jobforge.sessions o where o.expires_at <= v_now order by o.expires_at limit 100
    for update skip locked);
  delete from jobforge.sessions s where s.id_sha256 in (
    select o.id_sha256 from jobforge.sessions o where o.key_id = p_key_id order by o.created_at desc offset 99
    for update skip locked);
  v_end := least(v_now + p_lifetime, v_key.expires_at);
  insert into jobforge.sessions (id_sha256, key_id, created_at, expires_at) values (p_id_sha256, p_key_id, v_now, v_end)
  on conflict on constraint sessions_pk do nothing;
  if not found then
    perform jobforge.refuse('JF008', 'session_exists', format('there is such a session of key %s already', p_key_id));
  end if;
  perform jobforge.audit_key('create_session', p_key_id, v_key.tenant_id, null, jsonb_build_object('expires_at', v_end), v_now);
  return v_end;
end
$$;
comment on function jobforge.create_session(bytea, text, interval) is
  'Begins a session of a living key, known by the SHA-256 of its id, and tells when it ends: with the key at the latest. Sessions '
  'that ended leave; of one key the newest hundred stay.';
grant execute on function jobforge.create_session(bytea, text, interval) to jf_operator;

create or replace function jobforge.find_session(p_id_sha256 bytea)
returns table (key_id text, role text, tenant_id uuid, expires_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
begin
  return query
  select s.key_id, k.role, k.tenant_id, s.expires_at
  from jobforge.sessions s join jobforge.api_keys k on k.id = s.key_id
  where s.id_sha256 = p_id_sha256 and s.expires_at > v_now
    and k.revoked_at is null and (k.expires_at is null or k.expires_at > v_now)
    and (v_bound is null or k.tenant_id = v_bound);
end
$$;
comment on function jobforge.find_session(bytea) is
  'Whose session this is and what it may do; no row where it is unknown or over, or its key revoked or expired. Remember it for no '
  'more than five seconds.';
grant execute on function jobforge.find_session(bytea) to jf_operator;

create or replace function jobforge.end_session(p_id_sha256 bytea) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
  v_session record;
begin
  delete from jobforge.sessions s using jobforge.api_keys k
  where s.id_sha256 = p_id_sha256 and k.id = s.key_id and (v_bound is null or k.tenant_id = v_bound)
  returning s.key_id, k.tenant_id into v_session;
  if v_session.key_id is null then
    return false;
  end if;
  perform jobforge.audit_key('end_session', v_session.key_id, v_session.tenant_id, null, '{}', v_now);
  -- The servers forget what they remember of the key, its sessions among it.
  perform pg_notify('jobforge_keys', v_session.key_id);
  return true;
end
$$;
comment on function jobforge.end_session(bytea) is
  'Ends a session and tells the servers (channel jobforge_keys, the id of its key); false where there is none.';
grant execute on function jobforge.end_session(bytea) to jf_operator;
