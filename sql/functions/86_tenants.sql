-- owner: jf_sys
-- Tenants: their names, weights, limits and time zones.

-- A function whose arguments changed would stand beside the old one.
drop function if exists jobforge.upsert_tenant(uuid, text, integer, integer, integer, double precision, integer, text, text[]);
drop function if exists jobforge.list_tenants(integer, uuid);

create or replace function jobforge.upsert_tenant(
  p_tenant_id uuid, p_name text default null, p_weight integer default null, p_max_pending integer default null,
  p_max_in_flight integer default null, p_rate_per_second double precision default null, p_rate_burst integer default null,
  p_retention text default null, p_clear text[] default '{}', p_time_zone text default null)
returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_is_new boolean;
  v_old jobforge.tenants;
  v_new jobforge.tenants;
begin
  if p_tenant_id is null then
    perform jobforge.refuse('JF001', 'tenant_missing', 'p_tenant_id is null');
  elsif p_tenant_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then
    -- Whose turn comes is looked for below it (next_tenants).
    perform jobforge.refuse('JF001', 'tenant_out_of_range', 'the greatest id there is cannot be a tenant''s');
  elsif length(p_name) not between 1 and 200 then
    perform jobforge.refuse('JF001', 'name_length', 'a tenant''s name has 1 to 200 characters');
  elsif p_time_zone is not null and not exists (select from pg_timezone_names z where z.name = p_time_zone and z.name ~ '^[A-Z]') then
    perform jobforge.refuse('JF001', 'time_zone_unknown', format('tenant %s: there is no time zone %s', p_tenant_id, p_time_zone));
  end if;
  perform jobforge.require_clear(p_clear, array['max_pending', 'max_in_flight', 'rate', 'retention']);
  -- What is not given keeps its value, or takes the default when the tenant is new.
  insert into jobforge.tenants (id, name) values (p_tenant_id, coalesce(p_name, p_tenant_id::text)) on conflict (id) do nothing;
  v_is_new := found;
  select t.* into v_old from jobforge.tenants t where t.id = p_tenant_id for no key update;
  update jobforge.tenants t
  set name = coalesce(p_name, t.name), weight = coalesce(p_weight, t.weight),
    max_pending = case when 'max_pending' <> all (p_clear) then coalesce(p_max_pending, t.max_pending) end,
    max_in_flight = case when 'max_in_flight' <> all (p_clear) then coalesce(p_max_in_flight, t.max_in_flight) end,
    -- A rate that is taken away and given in one call is the given one, without what it had of the old.
    rate_per_second = coalesce(p_rate_per_second, case when 'rate' <> all (p_clear) then t.rate_per_second end),
    rate_burst = coalesce(p_rate_burst, case when 'rate' <> all (p_clear) then t.rate_burst end),
    retention = case when 'retention' <> all (p_clear) then coalesce(p_retention, t.retention) end,
    time_zone = coalesce(p_time_zone, t.time_zone),
    -- The greatest number: no claim has looked at the new limit yet (count_runs).
    limited_since = case when v_old.max_in_flight is null and p_max_in_flight is not null then '18446744073709551615'
      else t.limited_since end
  where t.id = p_tenant_id
  returning t.* into v_new;
  -- What changes nothing is not written down: programs say again at each start what they need.
  if v_is_new or v_new is distinct from v_old then
    perform jobforge.audit(p_tenant_id, 'upsert_tenant', 'tenant', p_tenant_id::text, jsonb_strip_nulls(jsonb_build_object(
      'new', v_is_new, 'name', p_name, 'weight', p_weight, 'max_pending', p_max_pending, 'max_in_flight', p_max_in_flight,
      'rate_per_second', p_rate_per_second, 'rate_burst', p_rate_burst, 'retention', p_retention,
      'time_zone', p_time_zone, 'clear', nullif(p_clear, '{}'))), v_now);
  end if;
  perform pg_notify('jobforge_wake', '');
  return p_tenant_id;
exception when check_violation or numeric_value_out_of_range then
  raise exception 'tenant % refused: %', p_tenant_id, sqlerrm using errcode = 'JF001', detail = 'tenant_out_of_range';
end
$$;
comment on function jobforge.upsert_tenant(uuid, text, integer, integer, integer, double precision, integer, text, text[], text) is
  'Makes a tenant known or changes it; what is not given stays, what p_clear names (max_pending, max_in_flight, rate, '
  'retention) is taken away.';
grant execute on function jobforge.upsert_tenant(uuid, text, integer, integer, integer, double precision, integer, text,
  text[], text) to jf_operator;

create or replace function jobforge.list_tenants(
  p_limit integer default 100, p_after uuid default null, p_id uuid default null)
returns table (id uuid, name text, weight integer, max_pending integer, max_in_flight integer,
  rate_per_second double precision, rate_burst integer, retention text, time_zone text, created_at timestamptz, paused_at timestamptz,
  paused_until timestamptz, pause_reason text, paused_by text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  return query
  select t.id, t.name, t.weight::integer, t.max_pending, t.max_in_flight, t.rate_per_second, t.rate_burst, t.retention,
    t.time_zone, t.created_at, p.paused_at, p.until, p.reason, p.author
  from jobforge.tenants t
  left join jobforge.pauses p on p.kind = 'tenant' and p.name = t.id::text and (p.until is null or p.until > v_now)
  where (p_after is null or t.id > p_after) and (p_id is null or t.id = p_id)
  order by t.id limit p_limit;
end
$$;
comment on function jobforge.list_tenants(integer, uuid, uuid) is
  'A page of tenants in the order of their ids, after p_after, or the one of p_id: weights, limits, time zones, and the pause that '
  'holds one, if any.';
grant execute on function jobforge.list_tenants(integer, uuid, uuid) to jf_operator;

create or replace function jobforge.require_clear(p_clear text[], p_known text[]) returns void
language plpgsql immutable
as $$
begin
  if p_clear is null or not p_clear <@ p_known then
    perform jobforge.refuse('JF001', 'clear_unknown', format('p_clear may name %s', array_to_string(p_known, ', ')));
  end if;
end
$$;
comment on function jobforge.require_clear(text[], text[]) is 'Refuses the clearing of what cannot be cleared.';
