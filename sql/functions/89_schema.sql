-- owner: jf_sys
-- Schemas of payloads: what the database takes, and which places a schema marks writeOnly. Whether a payload fits is for
-- hosts to say (a validator's work is no statement's), before they enqueue and before every run.

create or replace function jobforge.definition_rules(p_types text[])
returns table (key text, updated_at timestamptz, arg_schema jsonb, redact text[])
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if cardinality(p_types) is null or cardinality(p_types) not between 1 and 500 then
    perform jobforge.refuse('JF001', 'batch_size', 'p_types must name 1 to 500 types');
  end if;
  return query
  select d.key, d.updated_at, d.arg_schema, d.redact || d.write_only from jobforge.definitions d
  where d.key = any (p_types) and (d.arg_schema is not null or d.redact <> '{}' or d.write_only <> '{}') order by d.key;
end
$$;
comment on function jobforge.definition_rules(text[]) is
  'What the payloads of these types must fit, and what of them is never shown; no row for a type that says neither.';
grant execute on function jobforge.definition_rules(text[]) to jf_tenant, jf_worker, jf_operator;

create or replace function jobforge.require_schema(p_key text, p_schema jsonb) returns void
language plpgsql immutable
as $$
declare
  -- A $ref in an example or an enum is refused as well: nobody needs one there.
  v_fault text[] := case
    when jsonb_typeof(p_schema) not in ('object', 'boolean') then array['schema_malformed', 'is neither an object nor a boolean']
    when octet_length(p_schema::text) > 65536 then array['schema_too_large', 'is larger than 64 KiB']
    when jsonb_path_exists(p_schema, 'strict $.**{65}') then array['schema_too_deep', 'is deeper than 64 levels']
    when p_schema ? '$schema' and rtrim(p_schema ->> '$schema', '#') not in ('http://json-schema.org/draft-07/schema',
      'https://json-schema.org/draft/2020-12/schema') then array['schema_draft_unknown', 'is of another draft than 7 and 2020-12']
    -- A resource of its own inside the schema would give # another meaning there.
    when jsonb_path_exists(p_schema, '$.**{1 to last}."$id" ? (@.type() == "string" && !(@ starts with "#"))')
      then array['schema_id_nested', 'has an $id below its top']
    when jsonb_path_exists(p_schema, '$.**."$ref" ? (@.type() == "string" && !(@ starts with "#"))')
      or jsonb_path_exists(p_schema, '$.**."$dynamicRef" ? (@.type() == "string" && !(@ starts with "#"))')
      then array['schema_ref_remote', 'has a $ref that leads out of it; only those that begin with # are followed']
  end;
begin
  if v_fault is not null then
    perform jobforge.refuse('JF001', v_fault[1], format('definition %s: the schema %s', p_key, v_fault[2]));
  end if;
end
$$;
comment on function jobforge.require_schema(text, jsonb) is
  'Refuses what is no schema, is too large or too deep, or refers to anything outside itself.';

create or replace function jobforge.require_paths(p_key text, p_paths text[]) returns void
language plpgsql immutable
as $$
begin
  if cardinality(p_paths) > 100 then
    perform jobforge.refuse('JF001', 'redact_too_many', format('definition %s: p_redact has more than 100 paths', p_key));
  elsif exists (select from unnest(p_paths) as p where p is null or length(p) > 500 or p !~ '^(/([^~/]|~[012])*){0,32}$') then
    perform jobforge.refuse('JF001', 'redact_malformed', format('definition %s: p_redact has what is no path; one is a JSON '
      'Pointer of at most 32 steps such as /card/number or /items/*/secret', p_key));
  end if;
end
$$;
comment on function jobforge.require_paths(text, text[]) is 'Refuses what are no paths of redaction, or too many.';

create or replace function jobforge.write_only_paths(p_key text, p_schema jsonb) returns text[]
language plpgsql stable
as $$
declare
  v_most constant integer := 10000;
  v_found record;
begin
  if p_schema is null or not jsonb_path_exists(p_schema, '$.**.writeOnly ? (@ == true)') then
    return '{}';
  end if;
  with recursive walk as (
    select p_schema as node, '' as path, '{}'::text[] as refs, '{}'::text[] as ats, false as hidden
    union
    select n.* from walk w cross join lateral jobforge.schema_parts(p_schema, w.node, w.path, w.refs, w.ats) as n where not w.hidden
  ), seen as (select w.path, w.hidden from walk w limit v_most + 1)
  select array_agg(distinct s.path) filter (where s.hidden) as paths, count(*) as looked into v_found from seen s;
  if v_found.looked > v_most or cardinality(v_found.paths) > 1000 then
    perform jobforge.refuse('JF001', 'schema_too_complex',
      format('definition %s: the schema''s writeOnly places are too many to be found', p_key));
  end if;
  return coalesce(v_found.paths, '{}');
end
$$;
comment on function jobforge.write_only_paths(text, jsonb) is
  'The paths of what a schema marks writeOnly. Rather too much than too little: what any of several subschemas marks is marked, '
  'elements and undeclared members as a whole, and a schema that contains itself from its second turn on.';

create or replace function jobforge.schema_parts(p_root jsonb, p_node jsonb, p_path text, p_refs text[], p_ats text[])
returns table (node jsonb, path text, refs text[], ats text[], hidden boolean)
language plpgsql stable
as $$
#variable_conflict use_column
declare
  v_ref text := coalesce(p_node ->> '$ref', p_node ->> '$dynamicRef');
  v_turn integer := array_position(p_refs, v_ref);
  v_target jsonb;
begin
  if jsonb_typeof(p_node) <> 'object' then
    return;
  elsif p_node -> 'writeOnly' = 'true' or jobforge.marks_write_only(p_root, p_node -> 'contentSchema') then
    return query select null::jsonb, p_path, '{}'::text[], '{}'::text[], true;
    return;
  end if;
  if v_ref is not null then
    v_target := jobforge.schema_target(p_root, v_ref);
    if v_turn is null then
      return query select v_target, p_path, p_refs || v_ref, p_ats || p_path, false;
    elsif p_ats[v_turn] <> p_path and jobforge.marks_write_only(p_root, v_target) then
      return query select null::jsonb, p_path, '{}'::text[], '{}'::text[], true;
    end if;
  end if;
  return query
  -- Of the same value.
  select e.value, p_path, p_refs, p_ats, false from unnest(array['allOf', 'anyOf', 'oneOf']) as k(name)
  cross join lateral jsonb_path_query(p_node -> k.name, '$[*]') as e(value)
  union all
  select p_node -> k.name, p_path, p_refs, p_ats, false from unnest(array['if', 'then', 'else', 'not']) as k(name) where p_node ? k.name
  union all
  select e.value, p_path, p_refs, p_ats, false from unnest(array['dependentSchemas', 'dependencies']) as k(name)
  cross join lateral jsonb_each(case jsonb_typeof(p_node -> k.name) when 'object' then p_node -> k.name end) as e
  union all
  -- Of its members.
  select e.value, p_path || '/' || replace(replace(replace(e.key, '~', '~0'), '/', '~1'), '*', '~2'), p_refs, p_ats, false
  from jsonb_each(case jsonb_typeof(p_node -> 'properties') when 'object' then p_node -> 'properties' end) as e
  union all
  select e.value, p_path || '/*', p_refs, p_ats, false
  from jsonb_each(case jsonb_typeof(p_node -> 'patternProperties') when 'object' then p_node -> 'patternProperties' end) as e
  union all
  -- An array of schemas (prefixItems, and items in draft 7) is taken apart by the path's lax mode.
  select e.value, p_path || '/*', p_refs, p_ats, false
  from unnest(array['additionalProperties', 'unevaluatedProperties', 'items', 'prefixItems', 'additionalItems', 'unevaluatedItems',
    'contains']) as k(name)
  cross join lateral jsonb_path_query(p_node -> k.name, '$[*]') as e(value);
end
$$;
comment on function jobforge.schema_parts(jsonb, jsonb, text, text[], text[]) is
  'The subschemas of a schema with the places they speak of; hidden where one is writeOnly. p_refs and p_ats are the references '
  'on the way and where they were met.';

create or replace function jobforge.marks_write_only(p_root jsonb, p_node jsonb) returns boolean
language sql stable
as $$
  with recursive reach as (
    select p_node as node
    union
    select jobforge.schema_target(p_root, f.ref #>> '{}')
    from reach r cross join lateral jsonb_path_query(r.node, '$.**."$ref" ? (@.type() == "string")') as f(ref))
  select exists (select from reach r where jsonb_path_exists(r.node, '$.**.writeOnly ? (@ == true)'))
$$;
comment on function jobforge.marks_write_only(jsonb, jsonb) is 'Whether a schema, or one that it refers to, marks anything writeOnly.';

create or replace function jobforge.schema_target(p_root jsonb, p_ref text) returns jsonb
language plpgsql stable
as $$
declare
  v_target jsonb := case when p_ref ~ '^#(/|$)' then jobforge.json_at(p_root, jobforge.pointer_path(substr(p_ref, 2)))
    else jsonb_path_query_first(p_root, '$.** ? (@."$anchor" == $name || @."$dynamicAnchor" == $name || @."$id" == $ref)',
      jsonb_build_object('name', substr(p_ref, 2), 'ref', p_ref)) end;
begin
  if v_target is null then
    perform jobforge.refuse('JF001', 'schema_ref_unknown', format('the schema has no place %s, to which it refers', left(p_ref, 200)));
  end if;
  return v_target;
end
$$;
comment on function jobforge.schema_target(jsonb, text) is 'What a $ref inside a schema refers to; one that leads nowhere is refused.';
