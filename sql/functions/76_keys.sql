-- owner: jf_sys
-- API keys: made, found by the server that checks them, noted when used, revoked. Their secrets never come here; what
-- is stored is a hash, and find_api_key alone tells it.

create or replace function jobforge.create_api_key(
  p_id text, p_secret_sha256 bytea, p_role text, p_tenant_id uuid default null, p_name text default '',
  p_expires_at timestamptz default null, p_author text default null, p_only_first boolean default false)
returns table (id text, role text, tenant_id uuid, name text, created_at timestamptz, created_by text, expires_at timestamptz,
  last_used_at timestamptz, revoked_at timestamptz, revoked_by text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
begin
  perform jobforge.require_new_key(p_id, p_secret_sha256, p_role, p_tenant_id);
  perform jobforge.require_author(p_author);
  if v_bound is not null and p_tenant_id is distinct from v_bound then
    perform jobforge.refuse('JF009', 'login_not_bound', format('login %s may not make this key', session_user));
  elsif length(p_name) > 200 then
    perform jobforge.refuse('JF001', 'name_length', 'a key''s name has at most 200 characters');
  elsif p_expires_at <= v_now then
    perform jobforge.refuse('JF001', 'expiry_in_the_past', format('key %s would have expired before it was made', p_id));
  elsif p_tenant_id is not null and not exists (select from jobforge.tenants t where t.id = p_tenant_id) then
    perform jobforge.refuse('JF007', 'tenant_unknown', format('tenant %s is not known', p_tenant_id));
  end if;
  if coalesce(p_only_first, false) then
    -- Two servers that give out a token for the first key each: the second waits, and sees the first one's.
    perform pg_advisory_xact_lock(hashtextextended('jobforge first key', 0));
    if jobforge.has_keys() then
      perform jobforge.refuse('JF008', 'keys_exist', format('key %s is not the first one', p_id));
    end if;
  end if;
  return query
  insert into jobforge.api_keys as k (id, secret_sha256, role, tenant_id, name, created_at, created_by, expires_at)
  values (p_id, p_secret_sha256, p_role, p_tenant_id, coalesce(p_name, ''), v_now, coalesce(p_author, session_user), p_expires_at)
  on conflict on constraint api_keys_pk do nothing
  returning k.id, k.role, k.tenant_id, k.name, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at, k.revoked_by;
  if not found then
    perform jobforge.refuse('JF008', 'api_key_exists', format('there is a key %s already', p_id));
  end if;
  perform jobforge.audit_key('create_api_key', p_id, p_tenant_id, p_author, jsonb_build_object('role', p_role, 'name', p_name,
    'expires_at', p_expires_at), v_now);
end
$$;
comment on function jobforge.create_api_key(text, bytea, text, uuid, text, timestamptz, text, boolean) is
  'Makes an API key known by the SHA-256 of its secret: of one tenant, or of none for super_admin and for a worker of all. '
  'With p_only_first it is refused once any key was ever made. Answers as list_api_keys does.';
grant execute on function jobforge.create_api_key(text, bytea, text, uuid, text, timestamptz, text, boolean) to jf_operator;

create or replace function jobforge.find_api_key(p_id text)
returns table (id text, secret_sha256 bytea, role text, tenant_id uuid, expires_at timestamptz, expired boolean, revoked boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
begin
  return query
  select k.id, k.secret_sha256, k.role, k.tenant_id, k.expires_at, coalesce(k.expires_at <= v_now, false), k.revoked_at is not null
  from jobforge.api_keys k where k.id = p_id and (v_bound is null or k.tenant_id = v_bound);
end
$$;
comment on function jobforge.find_api_key(text) is
  'What a server checks a caller''s key by; no row where there is none. The only function that tells the hash: compare it in '
  'constant time, and remember it for no more than five seconds.';
grant execute on function jobforge.find_api_key(text) to jf_operator;

create or replace function jobforge.list_api_keys(
  p_tenant_id uuid default null, p_limit integer default 100, p_after text default null)
returns table (id text, role text, tenant_id uuid, name text, created_at timestamptz, created_by text, expires_at timestamptz,
  last_used_at timestamptz, revoked_at timestamptz, revoked_by text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_sort = off set jit = off
as $$
declare
  v_bound uuid := jobforge.login_tenant();
begin
  perform jobforge.require_limit(p_limit);
  return query
  select k.id, k.role, k.tenant_id, k.name, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at, k.revoked_by
  from jobforge.api_keys k
  where (p_tenant_id is null or k.tenant_id = p_tenant_id) and (v_bound is null or k.tenant_id = v_bound)
    and (p_after is null or k.id > p_after)
  order by k.id limit p_limit;
end
$$;
comment on function jobforge.list_api_keys(uuid, integer, text) is
  'A page of keys in the order of their ids, after p_after: a tenant''s, or all. Revoked and expired ones stay listed.';
grant execute on function jobforge.list_api_keys(uuid, integer, text) to jf_operator;

create or replace function jobforge.revoke_api_key(p_id text, p_author text default null, p_tenant_id uuid default null)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
  v_key record;
begin
  perform jobforge.require_author(p_author);
  select k.tenant_id, k.role, k.name, k.revoked_at is null as lives into v_key from jobforge.api_keys k
  where k.id = p_id and (p_tenant_id is null or k.tenant_id = p_tenant_id) and (v_bound is null or k.tenant_id = v_bound)
  for no key update;
  if v_key.lives is null then
    -- What cannot be an id may be a secret, and a message goes into the server's log.
    perform jobforge.refuse('JF007', 'api_key_unknown', case when p_id ~ '^[0-9a-z]{12}$'
      then format('revoke_api_key: key %s is not known', p_id) else 'revoke_api_key: that is no id of a key' end);
  end if;
  if v_key.lives then
    update jobforge.api_keys k set revoked_at = v_now, revoked_by = coalesce(p_author, session_user) where k.id = p_id;
    perform jobforge.audit_key('revoke_api_key', p_id, v_key.tenant_id, p_author, jsonb_build_object('role', v_key.role,
      'name', v_key.name), v_now);
  end if;
  -- Each time: who calls again may do so because a server did not hear of it.
  perform pg_notify('jobforge_keys', p_id);
  return v_key.lives;
end
$$;
comment on function jobforge.revoke_api_key(text, text, uuid) is
  'Ends a key for good and tells the servers (channel jobforge_keys, the id); false where it was revoked before. With '
  'p_tenant_id only a key of that tenant is known.';
grant execute on function jobforge.revoke_api_key(text, text, uuid) to jf_operator;

create or replace function jobforge.touch_api_keys(p_ids text[], p_at timestamptz[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
  v_touched integer;
begin
  perform jobforge.require_columns(cardinality(p_ids), coalesce(cardinality(p_at), 0));
  -- In the order of ids: two servers that note the same keys do not deadlock.
  perform from jobforge.api_keys k where k.id = any (p_ids) order by k.id for no key update;
  update jobforge.api_keys k set last_used_at = u.at
  from (select t.id, least(max(t.at), v_now) as at from unnest(p_ids, p_at) as t(id, at) group by t.id) as u
  where k.id = u.id and (k.last_used_at is null or k.last_used_at < u.at) and (v_bound is null or k.tenant_id = v_bound);
  get diagnostics v_touched = row_count;
  return v_touched;
end
$$;
comment on function jobforge.touch_api_keys(text[], timestamptz[]) is
  'Notes when keys were used last, many at a time: never backwards, never ahead of the clock. Tells how many changed.';
grant execute on function jobforge.touch_api_keys(text[], timestamptz[]) to jf_operator;

create or replace function jobforge.has_keys() returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select exists (select from jobforge.api_keys) $$;
comment on function jobforge.has_keys() is
  'Whether any key was ever made. Until then a server gives out its one-time token for the first one; a revoked key does not '
  'bring that back.';
grant execute on function jobforge.has_keys() to jf_operator;

create or replace function jobforge.require_new_key(p_id text, p_secret_sha256 bytea, p_role text, p_tenant_id uuid) returns void
language plpgsql immutable
as $$
begin
  if p_id is null or p_id !~ '^[a-z0-9]{12}$' then
    perform jobforge.refuse('JF001', 'key_id_malformed', 'a key''s id has 12 small letters and digits');
  elsif p_secret_sha256 is null or octet_length(p_secret_sha256) <> 32 then
    perform jobforge.refuse('JF001', 'secret_hash_malformed', format('the hash of key %s must have 32 bytes', p_id));
  elsif p_role is null or p_role not in ('super_admin', 'tenant_admin', 'tenant_viewer', 'producer', 'worker') then
    perform jobforge.refuse('JF001', 'key_role_unknown',
      'a key''s role is super_admin, tenant_admin, tenant_viewer, producer or worker');
  elsif p_role = 'super_admin' and p_tenant_id is not null then
    perform jobforge.refuse('JF001', 'key_tenant_given', format('key %s is a super-admin''s: it has no tenant', p_id));
  elsif p_role not in ('super_admin', 'worker') and p_tenant_id is null then
    perform jobforge.refuse('JF001', 'key_tenant_missing', format('key %s of role %s needs a tenant', p_id, p_role));
  end if;
end
$$;
comment on function jobforge.require_new_key(text, bytea, text, uuid) is
  'Refuses a key whose id, hash or role is none, or whose role does not go with its tenant.';

create or replace function jobforge.require_author(p_author text) returns void
language plpgsql immutable
as $$
begin
  if length(p_author) not between 1 and 255 then
    perform jobforge.refuse('JF001', 'author_length', 'p_author has 1 to 255 characters');
  end if;
end
$$;
comment on function jobforge.require_author(text) is 'Refuses an author whose name is empty or too long; none is the login.';

create or replace function jobforge.audit_key(
  p_action text, p_id text, p_tenant_id uuid, p_author text, p_detail jsonb, p_now timestamptz) returns void
language sql volatile
as $$
  -- What belongs to no tenant is the system tenant's.
  select jobforge.audit(coalesce(p_tenant_id, '00000000-0000-0000-0000-000000000000'), p_action, 'api_key', p_id,
    p_detail || jsonb_build_object('author', p_author), p_now)
$$;
comment on function jobforge.audit_key(text, text, uuid, text, jsonb, timestamptz) is 'Writes down who made or revoked which key.';
