-- owner: jf_sys
-- Definitions: what a job type is, how it is retried, limited and kept, what its payloads must be and what of them is shown.

-- A function whose arguments changed would stand beside the old one.
drop function if exists jobforge.upsert_definition(text, text, text, integer, integer, integer, integer, text, bigint, real,
  bigint, real, text, boolean, integer, integer, double precision, integer, text, text[], jsonb, text[]);

create or replace function jobforge.upsert_definition(
  p_key text, p_description text default null, p_queue text default null, p_priority integer default null,
  p_timeout_seconds integer default null, p_max_attempts integer default null, p_max_deaths integer default null,
  p_retry_preset text default null, p_retry_base_ms bigint default null, p_retry_factor real default null,
  p_retry_cap_ms bigint default null, p_retry_jitter real default null, p_retention text default null,
  p_is_active boolean default null, p_max_in_flight integer default null, p_max_in_flight_per_key integer default null,
  p_rate_per_second double precision default null, p_rate_burst integer default null, p_dead_retention text default null,
  p_clear text[] default '{}', p_arg_schema jsonb default null, p_redact text[] default null,
  p_only_new boolean default false, p_unchanged_since timestamptz default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_is_new boolean;
  v_old jobforge.definitions;
  v_new jobforge.definitions;
begin
  if p_key is null or p_key !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$' then
    perform jobforge.refuse('JF001', 'key_malformed', 'a definition''s key has 1 to 128 letters, digits, dots, colons, dashes');
  elsif p_retry_preset is not null and p_retry_preset not in ('standard', 'quick', 'patient') then
    perform jobforge.refuse('JF001', 'preset_unknown', 'a preset is standard, quick or patient');
  end if;
  perform jobforge.require_clear(p_clear, array['max_in_flight', 'rate', 'arg_schema', 'redact']);
  perform jobforge.require_schema(p_key, p_arg_schema);
  perform jobforge.require_paths(p_key, p_redact);
  -- What is not given keeps its value, or takes the default when the definition is new.
  insert into jobforge.definitions (key) values (p_key) on conflict (key) do nothing;
  v_is_new := found;
  select d.* into v_old from jobforge.definitions d where d.key = p_key for no key update;
  if coalesce(p_only_new, false) and not v_is_new then
    perform jobforge.refuse('JF008', 'definition_exists', format('there is a definition %s already', p_key));
  elsif p_unchanged_since is not null and (v_is_new or v_old.updated_at <> p_unchanged_since) then
    perform jobforge.refuse('JF008', 'definition_changed', format('definition %s was changed since it was looked at', p_key));
  end if;
  v_new := v_old;
  if p_retry_preset is not null then
    v_new.retry_base_ms := case p_retry_preset when 'patient' then 2000 else 1000 end;
    v_new.retry_factor := 2;
    v_new.retry_cap_ms := case p_retry_preset when 'quick' then 60000 when 'patient' then 1024000 else 3600000 end;
  end if;
  if v_new.max_in_flight is null and p_max_in_flight is not null then
    -- The greatest number: no claim has looked at the new limit yet (count_runs).
    v_new.limited_since := '18446744073709551615';
  end if;
  if p_arg_schema is not null or 'arg_schema' = any (p_clear) then
    v_new.arg_schema := case when 'arg_schema' <> all (p_clear) then p_arg_schema end;
    v_new.write_only := jobforge.write_only_paths(p_key, v_new.arg_schema);
  end if;
  update jobforge.definitions d
  set description = coalesce(p_description, d.description), queue = coalesce(p_queue, d.queue),
    priority = coalesce(p_priority, d.priority), timeout_seconds = coalesce(p_timeout_seconds, d.timeout_seconds),
    max_attempts = coalesce(p_max_attempts, d.max_attempts), max_deaths = coalesce(p_max_deaths, d.max_deaths),
    retry_base_ms = coalesce(p_retry_base_ms, v_new.retry_base_ms), retry_factor = coalesce(p_retry_factor, v_new.retry_factor),
    retry_cap_ms = coalesce(p_retry_cap_ms, v_new.retry_cap_ms), retry_jitter = coalesce(p_retry_jitter, d.retry_jitter),
    retention = coalesce(p_retention, d.retention), dead_retention = coalesce(p_dead_retention, d.dead_retention),
    is_active = coalesce(p_is_active, d.is_active),
    max_in_flight = case when 'max_in_flight' <> all (p_clear) then coalesce(p_max_in_flight, d.max_in_flight) end,
    max_in_flight_per_key = coalesce(p_max_in_flight_per_key, d.max_in_flight_per_key),
    -- A rate that is taken away and given in one call is the given one, without what it had of the old.
    rate_per_second = coalesce(p_rate_per_second, case when 'rate' <> all (p_clear) then d.rate_per_second end),
    rate_burst = coalesce(p_rate_burst, case when 'rate' <> all (p_clear) then d.rate_burst end),
    limited_since = v_new.limited_since, arg_schema = v_new.arg_schema, write_only = v_new.write_only,
    redact = case when 'redact' = any (p_clear) then '{}' else coalesce(p_redact, d.redact) end, updated_at = v_now
  where d.key = p_key
  returning d.* into v_new;
  v_old.updated_at := v_new.updated_at;
  -- Which settings changed, not what schemas say. What changes nothing is not written down: programs say again at each
  -- start what they need.
  if v_is_new or v_new is distinct from v_old then
    perform jobforge.audit('00000000-0000-0000-0000-000000000000', 'upsert_definition', 'definition', p_key,
      jsonb_build_object('new', v_is_new, 'changed', (select jsonb_agg(n.key order by n.key) from jsonb_each(to_jsonb(v_new)) as n
        where n.value is distinct from to_jsonb(v_old) -> n.key)), v_now);
  end if;
  perform pg_notify('jobforge_wake', '');
  return p_key;
exception when check_violation or numeric_value_out_of_range then
  raise exception 'definition % refused: %', p_key, sqlerrm using errcode = 'JF001', detail = 'definition_out_of_range';
end
$$;
comment on function jobforge.upsert_definition(text, text, text, integer, integer, integer, integer, text, bigint, real,
  bigint, real, text, boolean, integer, integer, double precision, integer, text, text[], jsonb, text[], boolean,
  timestamptz) is
  'Makes a job type known or changes it; what is not given stays, what p_clear names (max_in_flight, rate, arg_schema, '
  'redact) is taken away. Presets: standard, quick, patient. Refused with p_only_new where it is known already, with '
  'p_unchanged_since where it was changed at another time than that.';
grant execute on function jobforge.upsert_definition(text, text, text, integer, integer, integer, integer, text, bigint, real,
  bigint, real, text, boolean, integer, integer, double precision, integer, text, text[], jsonb, text[], boolean,
  timestamptz) to jf_operator;

create or replace function jobforge.list_definitions(
  p_limit integer default 100, p_after text default null, p_key text default null)
returns table (key text, description text, queue text, priority integer, timeout_seconds integer, max_attempts integer,
  max_deaths integer, retry_base_ms bigint, retry_factor real, retry_cap_ms bigint, retry_jitter real, retention text,
  dead_retention text, is_active boolean, max_in_flight integer, max_in_flight_per_key integer,
  rate_per_second double precision, rate_burst integer, arg_schema jsonb, redact text[], write_only text[],
  created_at timestamptz, updated_at timestamptz, paused_at timestamptz, paused_until timestamptz, pause_reason text,
  paused_by text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  return query
  select d.key, d.description, d.queue, d.priority::integer, d.timeout_seconds, d.max_attempts::integer,
    d.max_deaths::integer, d.retry_base_ms, d.retry_factor, d.retry_cap_ms, d.retry_jitter, d.retention, d.dead_retention,
    d.is_active, d.max_in_flight, d.max_in_flight_per_key, d.rate_per_second, d.rate_burst, d.arg_schema,
    d.redact, d.write_only, d.created_at, d.updated_at, p.paused_at, p.until, p.reason, p.author
  from jobforge.definitions d
  left join jobforge.pauses p on p.kind = 'definition' and p.name = d.key and (p.until is null or p.until > v_now)
  where (p_after is null or d.key > p_after) and (p_key is null or d.key = p_key)
  order by d.key limit p_limit;
end
$$;
comment on function jobforge.list_definitions(integer, text, text) is
  'A page of definitions in the order of their keys, after p_after, or the one of p_key; with the pause that holds one, if any.';
grant execute on function jobforge.list_definitions(integer, text, text) to jf_operator;
