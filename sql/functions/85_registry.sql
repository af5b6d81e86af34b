-- owner: jf_sys
-- Who works, and which login acts for whom.

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
  perform jobforge.require_worker_id(p_worker_id);
  if p_slots is null or p_slots not between 1 and 100000 then
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

create or replace function jobforge.require_worker_id(p_worker_id text) returns void
language plpgsql immutable
as $$
begin
  if p_worker_id is null then
    perform jobforge.refuse('JF001', 'worker_missing', 'p_worker_id is null');
  elsif length(p_worker_id) not between 1 and 200 then
    perform jobforge.refuse('JF001', 'worker_id_length', 'a worker id has 1 to 200 characters');
  end if;
end
$$;
comment on function jobforge.require_worker_id(text) is 'Refuses a worker id that none is registered under.';

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

create or replace function jobforge.bind_login(p_role text, p_tenant_id uuid default null) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_role record;
begin
  if exists (select from jobforge.logins l where l.role_name = session_user::text and l.tenant_id is not null) then
    perform jobforge.refuse('JF009', 'login_bound', format('login %s acts for one tenant: it binds nobody', session_user));
  end if;
  select r.rolsuper or r.rolbypassrls as unbound into v_role from pg_roles r where r.rolname = p_role;
  if v_role.unbound is null then
    perform jobforge.refuse('JF007', 'role_unknown', format('role %s does not exist', p_role));
  elsif v_role.unbound then
    perform jobforge.refuse('JF009', 'login_too_powerful', format('role %s is not subject to row-level security', p_role));
  end if;
  insert into jobforge.logins as l (role_name, tenant_id) values (p_role, p_tenant_id)
  on conflict (role_name) do update set tenant_id = excluded.tenant_id where l.tenant_id is distinct from excluded.tenant_id;
  if found then
    perform jobforge.audit(coalesce(p_tenant_id, '00000000-0000-0000-0000-000000000000'), 'bind_login', 'login', p_role,
      jsonb_build_object('tenant_id', p_tenant_id), v_now);
  end if;
  return p_role;
end
$$;
comment on function jobforge.bind_login(text, uuid) is
  'Lets a login act for one tenant, or, with null, trusts it to name any.';
grant execute on function jobforge.bind_login(text, uuid) to jf_operator;
