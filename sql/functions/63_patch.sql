-- owner: jf_fn
-- JSON Patch (RFC 6902) on a payload. What is wrong with the patch itself is refused; what does not fit one document is
-- that document's problem.

create or replace function jobforge.apply_patch(
  p_document jsonb, p_patch jsonb, p_hidden text[] default null, out document jsonb, out problem text)
language plpgsql immutable
as $$
declare
  v_op jsonb;
  v_path text[];
  v_value jsonb;
begin
  document := p_document;
  for v_op in select e.value from jsonb_array_elements(p_patch) with ordinality as e(value, n) order by e.n loop
    v_path := jobforge.pointer_path(v_op ->> 'path');
    v_value := v_op -> 'value';
    if v_op ->> 'op' in ('move', 'copy') then
      v_value := jobforge.json_at(document, jobforge.pointer_path(v_op ->> 'from'));
    elsif v_op ->> 'op' in ('remove', 'replace', 'test') and jobforge.json_at(document, v_path) is null then
      v_value := null;
    elsif v_op ->> 'op' = 'remove' then
      v_value := 'null';
    end if;
    if v_value is null then
      problem := 'JF003:patch_path_missing';
    elsif jobforge.uncovers(document, v_op, p_hidden) then
      problem := 'JF003:patch_path_redacted';
    elsif v_op ->> 'op' = 'test' then
      problem := case when jobforge.json_at(document, v_path) <> v_value then 'JF003:patch_test_failed' end;
    elsif v_op ->> 'op' = 'remove' then
      document := jobforge.json_without(document, v_path);
    elsif v_op ->> 'op' = 'replace' then
      document := case when v_path = '{}' then v_value else jsonb_set(document, v_path, v_value, false) end;
    else
      if v_op ->> 'op' = 'move' then
        document := jobforge.json_without(document, jobforge.pointer_path(v_op ->> 'from'));
      end if;
      document := jobforge.json_with(document, v_path, v_value);
      -- Copies of copies grow by powers of two: stopped long before memory is short.
      problem := case when document is null then 'JF003:patch_path_missing'
        when pg_column_size(document) > 4194304 then 'JF003:payload_too_large' end;
    end if;
    if problem is not null then
      document := null;
      return;
    end if;
  end loop;
end
$$;
comment on function jobforge.apply_patch(jsonb, jsonb, text[]) is
  'The document with the patch applied in whole, or the code and reason why it does not fit (JF003:reason). What p_hidden names '
  'may be written and removed, but neither tested nor taken elsewhere.';

create or replace function jobforge.uncovers(p_document jsonb, p_op jsonb, p_hidden text[]) returns boolean
language plpgsql immutable
as $$
declare
  v_from text[];
begin
  if coalesce(p_hidden, '{}') = '{}' or p_op ->> 'op' not in ('test', 'move', 'copy') then
    return false;
  end if;
  v_from := jobforge.pointer_path(case p_op ->> 'op' when 'test' then p_op ->> 'path' else p_op ->> 'from' end);
  return jobforge.json_at(p_document, v_from) is distinct from jobforge.json_at(jobforge.redact(p_document, p_hidden), v_from);
end
$$;
comment on function jobforge.uncovers(jsonb, jsonb, text[]) is
  'Whether an operation would tell something of a hidden value, or show it at another place.';

create or replace function jobforge.require_patch(p_patch jsonb) returns void
language plpgsql immutable
as $$
declare
  v_op jsonb;
  v_fault text;
begin
  if jsonb_typeof(p_patch) <> 'array' or octet_length(p_patch::text) > 262144 then
    perform jobforge.refuse('JF001', 'patch_malformed', 'p_patch must be a JSON Patch: an array of operations, at most 256 KiB');
  elsif jsonb_array_length(p_patch) not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'patch_malformed', 'p_patch must have 1 to 1000 operations');
  end if;
  for v_op in select e.value from jsonb_array_elements(p_patch) as e loop
    v_fault := case
      when jsonb_typeof(v_op) <> 'object' then 'is no object'
      when coalesce(v_op ->> 'op', '') not in ('add', 'remove', 'replace', 'move', 'copy', 'test') then 'has no known op'
      when not jobforge.is_pointer(v_op -> 'path') then 'has no JSON Pointer as its path'
      when v_op ->> 'op' in ('add', 'replace', 'test') and not v_op ? 'value' then 'has no value'
      when v_op ->> 'op' in ('move', 'copy') and not jobforge.is_pointer(v_op -> 'from') then 'has no JSON Pointer as its from'
      when v_op ->> 'op' = 'move' and starts_with(v_op ->> 'path', (v_op ->> 'from') || '/') then 'moves a value into itself'
    end;
    if v_fault is not null then
      perform jobforge.refuse('JF001', 'patch_malformed', format('p_patch: an operation %s: %s', v_fault, left(v_op::text, 200)));
    end if;
  end loop;
end
$$;
comment on function jobforge.require_patch(jsonb) is 'Refuses what is no JSON Patch, whatever it is applied to.';

create or replace function jobforge.is_pointer(p_value jsonb) returns boolean
language sql immutable
as $$ select coalesce(jsonb_typeof(p_value) = 'string' and p_value #>> '{}' ~ '^(/([^~/]|~[01])*)*$', false) $$;
comment on function jobforge.is_pointer(jsonb) is 'Whether it is a string with a JSON Pointer (RFC 6901).';

create or replace function jobforge.pointer_path(p_pointer text) returns text[]
language sql immutable
as $$
  -- ~1 before ~0: the other way round ~01 would become a slash.
  select coalesce(array_agg(replace(replace(t.token, '~1', '/'), '~0', '~') order by t.n), '{}')
  from regexp_split_to_table(substr(p_pointer, 2), '/') with ordinality as t(token, n) where p_pointer <> ''
$$;
comment on function jobforge.pointer_path(text) is 'The steps of a JSON Pointer; none of the whole document.';
grant execute on function jobforge.pointer_path(text) to jf_sys;

create or replace function jobforge.json_at(p_document jsonb, p_path text[]) returns jsonb
language plpgsql immutable
as $$
declare
  v_step text;
  v_at jsonb := p_document;
begin
  -- Step by step, because jsonb's own paths also take -1, 01 and the like for places in an array.
  foreach v_step in array p_path loop
    v_at := case jsonb_typeof(v_at)
      when 'object' then v_at -> v_step
      when 'array' then case when v_step ~ '^(0|[1-9][0-9]{0,8})$' then v_at -> v_step::integer end
    end;
  end loop;
  return v_at;
end
$$;
comment on function jobforge.json_at(jsonb, text[]) is 'The value at this path, null where there is none; JSON''s null is a value.';
grant execute on function jobforge.json_at(jsonb, text[]) to jf_sys;

create or replace function jobforge.json_with(p_document jsonb, p_path text[], p_value jsonb) returns jsonb
language plpgsql immutable
as $$
declare
  v_last text := p_path[cardinality(p_path)];
  v_parent jsonb := jobforge.json_at(p_document, trim_array(p_path, least(1, cardinality(p_path))));
begin
  if p_path = '{}' then
    return p_value;
  elsif jsonb_typeof(v_parent) = 'object' then
    return jsonb_set(p_document, p_path, p_value, true);
  elsif jsonb_typeof(v_parent) = 'array' then
    if v_last = '-' then
      v_last := jsonb_array_length(v_parent)::text;
    elsif v_last !~ '^(0|[1-9][0-9]{0,8})$' or v_last::integer > jsonb_array_length(v_parent) then
      return null;
    end if;
    return jsonb_insert(p_document, trim_array(p_path, 1) || v_last, p_value);
  end if;
  return null;
end
$$;
comment on function jobforge.json_with(jsonb, text[], jsonb) is
  'The document with a value added: a member set, an element inserted before its place; null where there is no such place.';

create or replace function jobforge.json_without(p_document jsonb, p_path text[]) returns jsonb
language sql immutable
as $$ select case when p_path <> '{}' then p_document #- p_path end $$;
comment on function jobforge.json_without(jsonb, text[]) is 'The document without what is at this path; nothing without the whole.';
