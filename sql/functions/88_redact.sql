-- owner: jf_fn
-- Redaction: what a definition's paths name is shown as "[redacted]". JSON is redacted when it is read, text (errors, logs,
-- tails, progress) when it is stored. A path is a JSON Pointer in which * stands for every member or element; ~2 is a star.

create or replace function jobforge.redact(p_value jsonb, p_paths text[]) returns jsonb
language plpgsql immutable
as $$
declare
  v_path text;
begin
  foreach v_path in array coalesce(p_paths, '{}') loop
    p_value := jobforge.redact_at(p_value, jobforge.path_steps(v_path));
  end loop;
  return p_value;
end
$$;
comment on function jobforge.redact(jsonb, text[]) is
  'The value with "[redacted]" at every place that a path names; keys, order and everything else stay.';

create or replace function jobforge.redact_at(p_value jsonb, p_steps text[]) returns jsonb
language plpgsql immutable
as $$
declare
  v_key text;
begin
  if p_value is null or p_steps = '{}' then
    return case when p_value is not null then '"[redacted]"'::jsonb end;
  elsif jsonb_typeof(p_value) = 'array' then
    -- Positions are not named: whoever inserts before an element would uncover it.
    return case when p_steps[1] <> '*' then p_value else coalesce((
      select jsonb_agg(jobforge.redact_at(e.value, p_steps[2:]) order by e.n)
      from jsonb_array_elements(p_value) with ordinality as e(value, n)), '[]') end;
  elsif jsonb_typeof(p_value) <> 'object' then
    return p_value;
  elsif p_steps[1] = '*' then
    return coalesce((select jsonb_object_agg(e.key, jobforge.redact_at(e.value, p_steps[2:])) from jsonb_each(p_value) as e), '{}');
  end if;
  v_key := jobforge.step_key(p_steps[1]);
  return case when p_value ? v_key
    then p_value || jsonb_build_object(v_key, jobforge.redact_at(p_value -> v_key, p_steps[2:])) else p_value end;
end
$$;
comment on function jobforge.redact_at(jsonb, text[]) is 'The value with "[redacted]" wherever these steps lead.';

create or replace function jobforge.path_steps(p_path text) returns text[]
language sql immutable
as $$ select case when p_path = '' then '{}' else regexp_split_to_array(substr(p_path, 2), '/') end $$;
comment on function jobforge.path_steps(text) is 'The steps of a path as they are written; none of the whole value.';

create or replace function jobforge.step_key(p_step text) returns text
language sql immutable
as $$ select replace(replace(replace(p_step, '~1', '/'), '~2', '*'), '~0', '~') $$;
comment on function jobforge.step_key(text) is 'The key that a step other than * names.';

create or replace function jobforge.redacted_values(p_value jsonb, p_paths text[]) returns text[]
language sql immutable
as $$
  select coalesce(array_agg(f.text order by length(f.text) desc, f.text), '{}')
  from (
    select distinct l.leaf #>> '{}' as text
    from unnest(p_paths) as p(path)
    cross join lateral jobforge.values_at(p_value, jobforge.path_steps(p.path)) as v(found)
    cross join lateral jsonb_path_query(v.found, 'strict $.** ? (@.type() == "string" || @.type() == "number")') as l(leaf)
    where length(l.leaf #>> '{}') >= 6) as f
$$;
comment on function jobforge.redacted_values(jsonb, text[]) is
  'The texts and numbers of six characters and more at these paths, the longest first: what must not stand in any text.';

create or replace function jobforge.values_at(p_value jsonb, p_steps text[]) returns setof jsonb
language plpgsql immutable
as $$
begin
  if p_steps = '{}' then
    return next p_value;
  elsif p_steps[1] = '*' and jsonb_typeof(p_value) in ('object', 'array') then
    return query select f.v from jsonb_path_query(p_value, case jsonb_typeof(p_value) when 'object' then 'strict $.*'::jsonpath
        else 'strict $[*]' end) as e(member)
      cross join lateral jobforge.values_at(e.member, p_steps[2:]) as f(v);
  elsif p_steps[1] <> '*' and jsonb_typeof(p_value) = 'object' and p_value ? jobforge.step_key(p_steps[1]) then
    return query select jobforge.values_at(p_value -> jobforge.step_key(p_steps[1]), p_steps[2:]);
  end if;
end
$$;
comment on function jobforge.values_at(jsonb, text[]) is 'The values that these steps lead to.';

create or replace function jobforge.redact_text(p_text text, p_secrets text[]) returns text
language plpgsql immutable
as $$
declare
  v_secret text;
  v_form text;
begin
  if p_text is null or coalesce(p_secrets, '{}') = '{}' then
    return p_text;
  elsif cardinality(p_secrets) > 1000 then
    -- So many are not searched for one by one.
    return '[redacted]';
  end if;
  foreach v_secret in array p_secrets loop
    -- JSON stands in JSON: an answer that quotes what it was sent, in a string of a result.
    for v_depth in 0..3 loop
      p_text := replace(p_text, v_secret, '[redacted]');
      v_form := to_json(v_secret)::text;
      v_form := substr(v_form, 2, length(v_form) - 2);
      exit when v_form = v_secret;
      v_secret := v_form;
    end loop;
  end loop;
  return p_text;
end
$$;
comment on function jobforge.redact_text(text, text[]) is
  'A text with "[redacted]" for each of these values, as they are and as JSON (also in JSON) writes them; the longest must come first.';

create or replace function jobforge.redact_strings(p_value jsonb, p_secrets text[]) returns jsonb
language plpgsql immutable
as $$
begin
  if p_value is null or coalesce(p_secrets, '{}') = '{}' or jobforge.redact_text(p_value::text, p_secrets) = p_value::text then
    return p_value;
  end if;
  return case jsonb_typeof(p_value)
    when 'object' then (select jsonb_object_agg(e.key, jobforge.redact_strings(e.value, p_secrets)) from jsonb_each(p_value) as e)
    when 'array' then (select jsonb_agg(jobforge.redact_strings(e.value, p_secrets) order by e.n)
                       from jsonb_array_elements(p_value) with ordinality as e(value, n))
    else to_jsonb(jobforge.redact_text(p_value #>> '{}', p_secrets))
  end;
end
$$;
comment on function jobforge.redact_strings(jsonb, text[]) is
  'The value with "[redacted]" for these texts wherever a string or number holds one; keys stay.';

create or replace function jobforge.redact_paths(p_type text) returns text[]
language plpgsql stable
as $$
begin
  return (select d.redact || d.write_only from jobforge.definitions d where d.key = p_type);
end
$$;
comment on function jobforge.redact_paths(text) is 'What of a type''s payloads and results is never shown.';

create or replace function jobforge.redact_patch(p_patch jsonb, p_filter jsonb) returns jsonb
language sql stable
as $$
  -- Without a type in its filter an operation may be about any: what one of them hides is hidden.
  select jsonb_agg(case when o.op ? 'value'
      then o.op || jsonb_build_object('value', jobforge.redact_under(o.op -> 'value', jobforge.pointer_path(o.op ->> 'path'), a.paths))
      else o.op end order by o.n)
  from jsonb_array_elements(p_patch) with ordinality as o(op, n)
  cross join (select array(select distinct p from jobforge.definitions d cross join unnest(d.redact || d.write_only) as p
                           where d.key = coalesce(p_filter ->> 'type', d.key))) as a(paths)
$$;
comment on function jobforge.redact_patch(jsonb, jsonb) is
  'A JSON Patch with what its operations write to redacted places redacted, for the types of an operation''s filter.';

create or replace function jobforge.redact_under(p_value jsonb, p_at text[], p_paths text[]) returns jsonb
language plpgsql immutable
as $$
declare
  v_path text;
  v_steps text[];
begin
  foreach v_path in array p_paths loop
    v_steps := jobforge.path_steps(v_path);
    -- Above, at or below the place that the path names.
    if (select coalesce(bool_and(s.step = '*' or jobforge.step_key(s.step) = s.at), true)
        from unnest(v_steps, p_at) as s(step, at) where s.step is not null and s.at is not null) then
      p_value := case when cardinality(v_steps) <= cardinality(p_at) then '"[redacted]"'
        else jobforge.redact_at(p_value, v_steps[cardinality(p_at) + 1:]) end;
    end if;
  end loop;
  return p_value;
end
$$;
comment on function jobforge.redact_under(jsonb, text[], text[]) is 'A value redacted as if it stood at this place.';

create or replace function jobforge.redact_before(p_before jsonb) returns jsonb
language sql stable
as $$
  select case when p_before ? 'payload' then p_before || jsonb_build_object('payload',
    case when p_before ? 'type' then jobforge.redact_payload(p_before -> 'payload', jobforge.redact_paths(p_before ->> 'type'))
      else '"[redacted]"' end) else p_before end
$$;
comment on function jobforge.redact_before(jsonb) is
  'What a job was before a redrive, its payload redacted; wholly, where nobody noted the type.';

create or replace function jobforge.redact_payload(p_payload jsonb, p_paths text[]) returns jsonb
language sql immutable
as $$
  select case when coalesce(p_paths, '{}') = '{}' then p_payload
    else jobforge.redact_strings(jobforge.redact(p_payload, p_paths), jobforge.redacted_values(p_payload, p_paths)) end
$$;
comment on function jobforge.redact_payload(jsonb, text[]) is
  'A payload as it may be shown: redacted by path, and what stands at those paths wherever else it stands.';

grant execute on function jobforge.redacted_values(jsonb, text[]), jobforge.values_at(jsonb, text[]),
  jobforge.path_steps(text), jobforge.step_key(text), jobforge.redact_text(text, text[]) to jf_sys;
