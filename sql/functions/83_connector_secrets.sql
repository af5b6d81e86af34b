-- owner: jf_sys
-- Who gets at a connector's secrets: the worker that runs a job of the tenant, for this job and as long as it holds it;
-- and an operator who seals them anew. Both get what is stored, which without the key or the environment is nothing.

create or replace function jobforge.find_connector_config(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_name text)
returns table (settings jsonb, disabled_reason text, secret_names text[], envs text[], key_ids text[], sealed bytea[])
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
begin
  perform jobforge.require_held(p_lease_id, p_tenant_id, p_job_id, p_fence, jobforge.clock());
  return query
  select c.settings, c.disabled_reason, s.names, s.envs, s.key_ids, s.sealed
  from jobforge.connector_configs c
  cross join lateral (
    select array_agg(k.name order by k.name), array_agg(k.env order by k.name), array_agg(k.key_id order by k.name),
      array_agg(k.sealed order by k.name)
    from jobforge.connector_secrets k where k.tenant_id = p_tenant_id and k.config = p_name
  ) as s(names, envs, key_ids, sealed)
  where c.tenant_id = p_tenant_id and c.name = p_name;
end
$$;
comment on function jobforge.find_connector_config(uuid, uuid, uuid, integer, text) is
  'The connector config of the tenant whose job a worker runs, with its secrets as they are stored; no row where there is '
  'none. A stale lease or fence is refused.';
grant execute on function jobforge.find_connector_config(uuid, uuid, uuid, integer, text) to jf_worker;

create or replace function jobforge.disable_connector_config(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_name text, p_reason text)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_disabled boolean;
begin
  perform jobforge.require_held(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  select c.disabled_at is not null into v_disabled from jobforge.connector_configs c
  where c.tenant_id = p_tenant_id and c.name = p_name for no key update;
  if v_disabled is null then
    perform jobforge.refuse_unknown_config('disable_connector_config', p_name);
  elsif not v_disabled then
    update jobforge.connector_configs c
    set disabled_at = v_now, disabled_reason = left(coalesce(p_reason, ''), 500), updated_at = v_now, updated_by = session_user
    where c.tenant_id = p_tenant_id and c.name = p_name;
    perform jobforge.audit(p_tenant_id, 'disable_connector_config', 'connector_config', p_name,
      jsonb_build_object('name', p_name, 'reason', left(coalesce(p_reason, ''), 500)), v_now, p_job_id);
  end if;
  return not v_disabled;
end
$$;
comment on function jobforge.disable_connector_config(uuid, uuid, uuid, integer, text, text) is
  'Takes a connector config out of use, for a job that learnt that it is of no use any more; false where it was disabled '
  'before. A stale lease or fence is refused.';
grant execute on function jobforge.disable_connector_config(uuid, uuid, uuid, integer, text, text) to jf_worker;

create or replace function jobforge.list_sealed_secrets(
  p_unless_key_id text, p_limit integer default 100, p_after_tenant_id uuid default '00000000-0000-0000-0000-000000000000',
  p_after_config text default '', p_after_name text default '')
returns table (tenant_id uuid, config text, name text, key_id text, sealed bytea)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_bound uuid := jobforge.login_tenant();
begin
  perform jobforge.require_limit(p_limit);
  return query
  select s.tenant_id, s.config, s.name, s.key_id, s.sealed from jobforge.connector_secrets s
  where s.sealed is not null and s.key_id is distinct from p_unless_key_id and (v_bound is null or s.tenant_id = v_bound)
    and (s.tenant_id, s.config, s.name) > (p_after_tenant_id, p_after_config, p_after_name)
  order by s.tenant_id, s.config, s.name limit p_limit;
end
$$;
comment on function jobforge.list_sealed_secrets(text, integer, uuid, text, text) is
  'Secrets that are sealed with another key than this one, to be sealed anew: as they are stored, across tenants (of its own '
  'for an operator bound to one), in the order of tenants, configs and names, after this one.';
grant execute on function jobforge.list_sealed_secrets(text, integer, uuid, text, text) to jf_operator;

create or replace function jobforge.reseal_secret(
  p_tenant_id uuid, p_config text, p_name text, p_was bytea, p_key_id text, p_sealed bytea)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
begin
  if coalesce(p_key_id, '') !~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$' or p_sealed is null
      or octet_length(p_sealed) not between 29 and 8220 then
    perform jobforge.refuse('JF001', 'secret_malformed',
      format('secret %s of connector config %s must come sealed, with its key''s id', p_name, p_config));
  end if;
  -- Only what was opened: a secret that was changed meanwhile stays as it is.
  update jobforge.connector_secrets s set key_id = p_key_id, sealed = p_sealed, updated_at = v_now
  where s.tenant_id = p_tenant_id and s.config = p_config and s.name = p_name and s.sealed = p_was
    and (v_bound is null or s.tenant_id = v_bound);
  return found;
end
$$;
comment on function jobforge.reseal_secret(uuid, text, text, bytea, text, bytea) is
  'Puts the same secret in its place, sealed with another key; false where it is no longer what was sealed anew.';
grant execute on function jobforge.reseal_secret(uuid, text, text, bytea, text, bytea) to jf_operator;

create or replace function jobforge.require_held(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_now timestamptz) returns void
language plpgsql volatile
as $$
begin
  if not jobforge.lease_lives(p_lease_id, p_now) or not exists (
      select from jobforge.jobs j
      where j.tenant_id = p_tenant_id and j.id = p_job_id and j.fence = p_fence and j.lease_id = p_lease_id) then
    perform jobforge.refuse_stale(p_lease_id, p_tenant_id, p_job_id, p_fence, p_now);
  end if;
end
$$;
comment on function jobforge.require_held(uuid, uuid, uuid, integer, timestamptz) is
  'Refuses whoever does not hold this attempt of the job now; locks nothing but the lease against the reaper.';
