-- owner: jf_fn
-- What a tenant's connectors are set up with. What is read back names secrets and never has their values: these
-- functions read no column that holds one.

create or replace function jobforge.upsert_connector_config(
  p_tenant_id uuid, p_name text, p_settings jsonb default null, p_secrets jsonb default null,
  p_updated_by text default null)
returns table (name text, settings jsonb, secrets jsonb, disabled_at timestamptz, disabled_reason text,
  created_at timestamptz, updated_at timestamptz, updated_by text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_settings jsonb;
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_connector_name(p_name);
  perform jobforge.require_connector_secrets(p_name, p_secrets);
  if jsonb_typeof(p_settings) <> 'object' then
    perform jobforge.refuse('JF001', 'settings_malformed', format('settings of connector config %s must be an object', p_name));
  elsif length(p_updated_by) not between 1 and 255 then
    perform jobforge.refuse('JF001', 'author_length', 'p_updated_by has 1 to 255 characters');
  end if;
  insert into jobforge.connector_configs as c (tenant_id, name, created_at, updated_at, updated_by)
  values (p_tenant_id, p_name, v_now, v_now, coalesce(p_updated_by, session_user))
  on conflict on constraint connector_configs_pk do nothing;
  -- Two who change one config come one after the other, so that what is counted below is what will be.
  select c.settings || coalesce(p_settings, '{}') into v_settings from jobforge.connector_configs c
  where c.tenant_id = p_tenant_id and c.name = p_name for no key update;
  select coalesce(jsonb_object_agg(s.key, s.value), '{}') into v_settings from jsonb_each(v_settings) as s
  where s.value <> 'null';
  if octet_length(v_settings::text) > 65536 then
    perform jobforge.refuse('JF001', 'settings_too_large', format('settings of connector config %s are over 64 KiB', p_name));
  elsif jobforge.payload_problem(v_settings) is not null then
    perform jobforge.refuse('JF001', 'settings_malformed',
      format('settings of connector config %s are too deep or hold too long a number', p_name));
  end if;
  update jobforge.connector_configs c set settings = v_settings, updated_at = v_now,
    updated_by = coalesce(p_updated_by, session_user)
  where c.tenant_id = p_tenant_id and c.name = p_name;
  perform jobforge.store_connector_secrets(p_tenant_id, p_name, p_secrets, v_now);
  perform jobforge.audit(p_tenant_id, 'upsert_connector_config', 'connector_config', p_name, jsonb_build_object('name', p_name,
    'author', p_updated_by, 'settings', (select jsonb_agg(k) from jsonb_object_keys(p_settings) as k),
    'secrets', (select jsonb_agg(k) from jsonb_object_keys(p_secrets) as k)), v_now);
  return query select g.* from jobforge.look_at_connector_config(p_tenant_id, p_name) as g;
end
$$;
comment on function jobforge.upsert_connector_config(uuid, text, jsonb, jsonb, text) is
  'Makes a connector config or changes it. Settings and secrets are set one by one: what is not named stays, what is '
  'null goes. A secret is {"env": NAME} or {"key_id": ID, "sealed": BASE64}. Answers as get_connector_config does.';
grant execute on function jobforge.upsert_connector_config(uuid, text, jsonb, jsonb, text) to jf_tenant, jf_operator;

create or replace function jobforge.get_connector_config(p_tenant_id uuid, p_name text)
returns table (name text, settings jsonb, secrets jsonb, disabled_at timestamptz, disabled_reason text,
  created_at timestamptz, updated_at timestamptz, updated_by text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  return query select g.* from jobforge.look_at_connector_config(p_tenant_id, p_name) as g;
  if not found then
    perform jobforge.refuse_unknown_config('get_connector_config', p_name);
  end if;
end
$$;
comment on function jobforge.get_connector_config(uuid, text) is
  'A connector config: its settings, and of each secret its name, kind (env or sealed) and key, never more.';
grant execute on function jobforge.get_connector_config(uuid, text) to jf_tenant, jf_operator;

create or replace function jobforge.list_connector_configs(
  p_tenant_id uuid, p_limit integer default 100, p_after text default '')
returns table (name text, settings jsonb, secrets jsonb, disabled_at timestamptz, disabled_reason text,
  created_at timestamptz, updated_at timestamptz, updated_by text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_limit(p_limit);
  return query
  select g.* from (
    select c.name from jobforge.connector_configs c
    where c.tenant_id = p_tenant_id and c.name > coalesce(p_after, '') order by c.name limit p_limit) as n
  cross join lateral jobforge.look_at_connector_config(p_tenant_id, n.name) as g order by n.name;
end
$$;
comment on function jobforge.list_connector_configs(uuid, integer, text) is
  'The tenant''s connector configs after a name, as get_connector_config tells them.';
grant execute on function jobforge.list_connector_configs(uuid, integer, text) to jf_tenant, jf_operator;

create or replace function jobforge.delete_connector_config(p_tenant_id uuid, p_name text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_tenant(p_tenant_id);
  delete from jobforge.connector_configs c where c.tenant_id = p_tenant_id and c.name = p_name;
  if not found then
    return false;
  end if;
  delete from jobforge.connector_secrets s where s.tenant_id = p_tenant_id and s.config = p_name;
  perform jobforge.audit(p_tenant_id, 'delete_connector_config', 'connector_config', p_name, jsonb_build_object('name', p_name), v_now);
  return true;
end
$$;
comment on function jobforge.delete_connector_config(uuid, text) is
  'Deletes a connector config with its secrets; false where there was none.';
grant execute on function jobforge.delete_connector_config(uuid, text) to jf_tenant, jf_operator;

create or replace function jobforge.enable_connector_config(p_tenant_id uuid, p_name text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_disabled boolean;
begin
  perform jobforge.require_tenant(p_tenant_id);
  select c.disabled_at is not null into v_disabled from jobforge.connector_configs c
  where c.tenant_id = p_tenant_id and c.name = p_name for no key update;
  if v_disabled is null then
    perform jobforge.refuse_unknown_config('enable_connector_config', p_name);
  elsif v_disabled then
    update jobforge.connector_configs c
    set disabled_at = null, disabled_reason = null, updated_at = v_now, updated_by = session_user
    where c.tenant_id = p_tenant_id and c.name = p_name;
    perform jobforge.audit(p_tenant_id, 'enable_connector_config', 'connector_config', p_name, jsonb_build_object('name', p_name), v_now);
  end if;
  return v_disabled;
end
$$;
comment on function jobforge.enable_connector_config(uuid, text) is
  'Lets jobs use a connector config again that was disabled; false where it was not.';
grant execute on function jobforge.enable_connector_config(uuid, text) to jf_tenant, jf_operator;

create or replace function jobforge.look_at_connector_config(p_tenant_id uuid, p_name text)
returns table (name text, settings jsonb, secrets jsonb, disabled_at timestamptz, disabled_reason text,
  created_at timestamptz, updated_at timestamptz, updated_by text)
language sql stable
as $$
  select c.name, c.settings, coalesce((
      select jsonb_agg(jsonb_build_object('name', s.name, 'key_id', s.key_id,
        'kind', case when s.key_id is null then 'env' else 'sealed' end) order by s.name)
      from jobforge.connector_secrets s where s.tenant_id = p_tenant_id and s.config = c.name), '[]'),
    c.disabled_at, c.disabled_reason, c.created_at, c.updated_at, c.updated_by
  from jobforge.connector_configs c where c.tenant_id = p_tenant_id and c.name = p_name
$$;
comment on function jobforge.look_at_connector_config(uuid, text) is
  'A connector config as its readers may see it; called under the tenant.';

create or replace function jobforge.store_connector_secrets(
  p_tenant_id uuid, p_config text, p_secrets jsonb, p_now timestamptz) returns void
language plpgsql volatile
as $$
begin
  delete from jobforge.connector_secrets s
  where s.tenant_id = p_tenant_id and s.config = p_config
    and s.name = any (array(select g.key from jsonb_each(p_secrets) as g where g.value = 'null'));
  insert into jobforge.connector_secrets as s (tenant_id, config, name, env, key_id, sealed, updated_at)
  select p_tenant_id, p_config, g.key, g.value ->> 'env', g.value ->> 'key_id', decode(g.value ->> 'sealed', 'base64'), p_now
  from jsonb_each(p_secrets) as g where g.value <> 'null'
  on conflict (tenant_id, config, name) do update
  set env = excluded.env, key_id = excluded.key_id, sealed = excluded.sealed, updated_at = excluded.updated_at;
  if (select count(*) from jobforge.connector_secrets s where s.tenant_id = p_tenant_id and s.config = p_config) > 50 then
    perform jobforge.refuse('JF001', 'too_many_secrets', format('connector config %s would have over 50 secrets', p_config));
  end if;
end
$$;
comment on function jobforge.store_connector_secrets(uuid, text, jsonb, timestamptz) is
  'Sets and removes secrets of a config that the caller has locked; called under the tenant.';

create or replace function jobforge.require_connector_name(p_name text) returns void
language plpgsql immutable
as $$
begin
  if coalesce(p_name, '') !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' then
    perform jobforge.refuse('JF001', 'name_malformed',
      'a connector config''s name has 1 to 63 letters, digits, dots, underscores, dashes');
  end if;
end
$$;
comment on function jobforge.require_connector_name(text) is 'Refuses what cannot name a connector config.';

create or replace function jobforge.require_connector_secrets(p_config text, p_secrets jsonb) returns void
language plpgsql immutable
as $$
declare
  v_secret record;
begin
  if jsonb_typeof(p_secrets) <> 'object' then
    perform jobforge.refuse('JF001', 'secret_malformed', format('secrets of connector config %s must be an object', p_config));
  end if;
  for v_secret in select g.key, g.value from jsonb_each(p_secrets) as g loop
    -- Whatever stands there may be a secret: no message repeats it.
    if v_secret.key !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' then
      perform jobforge.refuse('JF001', 'secret_name_malformed', format(
        'a secret''s name in connector config %s has 1 to 63 letters, digits, dots, underscores, dashes', p_config));
    elsif v_secret.value = 'null' then
      continue;
    elsif octet_length(v_secret.value ->> 'sealed') > 10960 then
      perform jobforge.refuse('JF001', 'secret_too_large',
        format('secret %s of connector config %s is over 8 KiB', v_secret.key, p_config));
    elsif not jobforge.is_connector_secret(v_secret.value) then
      perform jobforge.refuse('JF001', 'secret_malformed', format(
        'secret %s of connector config %s must be {"env": NAME} or {"key_id": ID, "sealed": BASE64}', v_secret.key, p_config));
    end if;
  end loop;
end
$$;
comment on function jobforge.require_connector_secrets(text, jsonb) is
  'Refuses secrets that are neither a reference nor sealed, without repeating any.';

create or replace function jobforge.is_connector_secret(p_secret jsonb) returns boolean
language sql immutable
as $$
  select case
    when jsonb_typeof(p_secret) <> 'object' then false
    when p_secret ? 'env' then p_secret - 'env' = '{}' and jsonb_typeof(p_secret -> 'env') = 'string'
      and p_secret ->> 'env' ~ '^[A-Za-z_][A-Za-z0-9_]{0,127}$'
    else p_secret ?& array['key_id', 'sealed'] and p_secret - 'key_id' - 'sealed' = '{}'
      and jsonb_typeof(p_secret -> 'key_id') = 'string' and jsonb_typeof(p_secret -> 'sealed') = 'string'
      and p_secret ->> 'key_id' ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$'
      -- At least a nonce, a byte and a tag.
      and length(p_secret ->> 'sealed') >= 40 and length(p_secret ->> 'sealed') % 4 = 0
      and p_secret ->> 'sealed' ~ '^[A-Za-z0-9+/]+={0,2}$'
  end
$$;
comment on function jobforge.is_connector_secret(jsonb) is 'Whether this is a reference to the environment or sealed bytes.';

create or replace function jobforge.refuse_unknown_config(p_operation text, p_name text) returns void
language plpgsql immutable
as $$
begin
  perform jobforge.refuse('JF007', 'connector_config_unknown', format('%s: connector config %s is not known', p_operation, p_name));
end
$$;
comment on function jobforge.refuse_unknown_config(text, text) is 'Raises for a connector config that the tenant does not have.';
grant execute on function jobforge.refuse_unknown_config(text, text) to jf_sys;
