-- owner: jf_sys
-- Who and what there is: workers, tenants, definitions, and which login acts for whom.

create or replace function jobforge.register_worker(
  p_worker_id text, p_host text, p_pid integer, p_version text, p_queues text[], p_types text[], p_slots integer default 1,
  p_metadata jsonb default '{}') returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_no integer;
begin
  perform jobforge.login_tenant();
  perform jobforge.require_claim(p_worker_id, p_queues, p_types, 1, null);
  if length(p_worker_id) not between 1 and 200 then
    perform jobforge.refuse('JF001', 'worker_id_length', 'a worker id has 1 to 200 characters');
  elsif p_slots is null or p_slots not between 1 and 100000 then
    perform jobforge.refuse('JF001', 'slots_out_of_range', 'p_slots must be 1 to 100000');
  elsif octet_length(p_metadata::text) > 16384 then
    perform jobforge.refuse('JF001', 'metadata_too_large', 'p_metadata holds at most 16 KiB');
  end if;
  insert into jobforge.workers as w (worker_id, host, pid, version, queues, types, slots, metadata, started_at, last_seen)
  values (p_worker_id, coalesce(p_host, ''), p_pid, coalesce(p_version, ''), p_queues, p_types, p_slots,
    coalesce(p_metadata, '{}'), v_now, v_now)
  on conflict (worker_id) do update
  set host = excluded.host, pid = excluded.pid, version = excluded.version, queues = excluded.queues,
    types = excluded.types, slots = excluded.slots, metadata = excluded.metadata, last_seen = excluded.last_seen,
    stopped_at = null
  returning w.no into v_no;
  return v_no;
end
$$;
comment on function jobforge.register_worker(text, text, integer, text, text[], text[], integer, jsonb) is
  'Makes a worker known under its stable id (host:pid:boot-uuid); again, it refreshes what is known of it.';
grant execute on function jobforge.register_worker(text, text, integer, text, text[], text[], integer, jsonb) to jf_worker;

create or replace function jobforge.stop_worker(p_worker_id text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.login_tenant();
  delete from jobforge.sleepers s where s.worker_id = p_worker_id;
  update jobforge.workers w set stopped_at = v_now, last_seen = v_now, running = 0 where w.worker_id = p_worker_id;
  return found;
end
$$;
comment on function jobforge.stop_worker(text) is 'Notes that a worker stopped of its own accord.';
grant execute on function jobforge.stop_worker(text) to jf_worker;

create or replace function jobforge.list_workers(p_limit integer default 100)
returns table (worker_id text, host text, pid integer, version text, queues text[], types text[], slots integer,
  running integer, metadata jsonb, started_at timestamptz, last_seen timestamptz, stopped_at timestamptz, stale boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  return query
  select w.worker_id, w.host, w.pid, w.version, w.queues, w.types, w.slots, w.running, w.metadata, w.started_at, w.last_seen,
    w.stopped_at, w.stopped_at is null and w.last_seen < v_now - interval '90 seconds'
  from jobforge.workers w order by w.last_seen desc, w.no limit p_limit;
end
$$;
comment on function jobforge.list_workers(integer) is
  'The workers, the last seen first; stale says that one went silent without stopping.';
grant execute on function jobforge.list_workers(integer) to jf_operator;

create or replace function jobforge.upsert_tenant(p_tenant_id uuid, p_name text) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_tenant_id is null then
    perform jobforge.refuse('JF001', 'tenant_missing', 'p_tenant_id is null');
  elsif p_name is null or length(p_name) not between 1 and 200 then
    perform jobforge.refuse('JF001', 'name_length', 'a tenant''s name has 1 to 200 characters');
  end if;
  insert into jobforge.tenants as t (id, name) values (p_tenant_id, p_name)
  on conflict (id) do update set name = excluded.name;
  return p_tenant_id;
end
$$;
comment on function jobforge.upsert_tenant(uuid, text) is 'Makes a tenant known or renames it.';
grant execute on function jobforge.upsert_tenant(uuid, text) to jf_operator;

create or replace function jobforge.upsert_definition(
  p_key text, p_description text default null, p_queue text default null, p_priority integer default null,
  p_timeout_seconds integer default null, p_max_attempts integer default null, p_max_deaths integer default null,
  p_retry_preset text default null, p_retry_base_ms bigint default null, p_retry_factor real default null,
  p_retry_cap_ms bigint default null, p_retry_jitter real default null, p_retention text default null,
  p_is_active boolean default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_new jobforge.definitions;
begin
  if p_key is null or p_key !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$' then
    perform jobforge.refuse('JF001', 'key_malformed', 'a definition''s key has 1 to 128 letters, digits, dots, colons, dashes');
  elsif p_retry_preset is not null and p_retry_preset not in ('standard', 'quick', 'patient') then
    perform jobforge.refuse('JF001', 'preset_unknown', 'a preset is standard, quick or patient');
  end if;
  -- What is not given keeps its value, or takes the default when the definition is new.
  insert into jobforge.definitions (key) values (p_key) on conflict (key) do nothing;
  select d.* into v_new from jobforge.definitions d where d.key = p_key for no key update;
  if p_retry_preset is not null then
    v_new.retry_base_ms := case p_retry_preset when 'patient' then 2000 else 1000 end;
    v_new.retry_factor := 2;
    v_new.retry_cap_ms := case p_retry_preset when 'quick' then 60000 when 'patient' then 1024000 else 3600000 end;
  end if;
  update jobforge.definitions d
  set description = coalesce(p_description, d.description), queue = coalesce(p_queue, d.queue),
    priority = coalesce(p_priority, d.priority), timeout_seconds = coalesce(p_timeout_seconds, d.timeout_seconds),
    max_attempts = coalesce(p_max_attempts, d.max_attempts), max_deaths = coalesce(p_max_deaths, d.max_deaths),
    retry_base_ms = coalesce(p_retry_base_ms, v_new.retry_base_ms), retry_factor = coalesce(p_retry_factor, v_new.retry_factor),
    retry_cap_ms = coalesce(p_retry_cap_ms, v_new.retry_cap_ms), retry_jitter = coalesce(p_retry_jitter, d.retry_jitter),
    retention = coalesce(p_retention, d.retention), is_active = coalesce(p_is_active, d.is_active), updated_at = jobforge.clock()
  where d.key = p_key;
  return p_key;
exception when check_violation or numeric_value_out_of_range then
  raise exception 'definition % refused: %', p_key, sqlerrm using errcode = 'JF001', detail = 'definition_out_of_range';
end
$$;
comment on function jobforge.upsert_definition(text, text, text, integer, integer, integer, integer, text, bigint, real,
  bigint, real, text, boolean) is
  'Makes a job type known or changes it; what is not given stays. Presets: standard, quick, patient.';
grant execute on function jobforge.upsert_definition(text, text, text, integer, integer, integer, integer, text, bigint, real,
  bigint, real, text, boolean) to jf_operator;

create or replace function jobforge.bind_login(p_role text, p_tenant_id uuid default null) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_role record;
begin
  select r.rolsuper or r.rolbypassrls as unbound into v_role from pg_roles r where r.rolname = p_role;
  if v_role.unbound is null then
    perform jobforge.refuse('JF007', 'role_unknown', format('role %s does not exist', p_role));
  elsif v_role.unbound then
    perform jobforge.refuse('JF009', 'login_too_powerful', format('role %s is not subject to row-level security', p_role));
  end if;
  insert into jobforge.logins as l (role_name, tenant_id) values (p_role, p_tenant_id)
  on conflict (role_name) do update set tenant_id = excluded.tenant_id;
  return p_role;
end
$$;
comment on function jobforge.bind_login(text, uuid) is
  'Lets a login act for one tenant, or, with null, trusts it to name any.';
grant execute on function jobforge.bind_login(text, uuid) to jf_operator;
