-- owner: jf_fn
-- What a batch must be before any of it is stored: its columns, its rows, its payloads.

create or replace function jobforge.check_jobs(
  p_now timestamptz, p_operator boolean, p_types text[], p_payloads jsonb[], p_queues text[], p_priorities integer[],
  p_run_ats timestamptz[], p_idempotency_keys text[], p_dedupe_keys text[], p_ids uuid[], p_max_attempts integer[],
  p_correlation_ids text[], p_traceparents text[], p_tags jsonb[], p_sources text[], p_source_refs text[],
  p_concurrency_keys text[], p_room integer, p_retention text)
returns table (
  at integer, type text, payload jsonb, queue text, priority integer, run_at timestamptz, idempotency_key text,
  dedupe_key text, given_id uuid, max_attempts integer, correlation_id text, traceparent text, tags jsonb, source text,
  source_ref text, concurrency_key text, retention text, problem text)
language sql stable
as $$
  select
    u.ordinality::integer, u.type, u.payload, coalesce(u.queue, d.queue), coalesce(u.priority, d.priority),
    greatest(u.run_at, p_now), u.idempotency_key,
    case when length(u.dedupe_key) > 255 then 'sha256:' || encode(sha256(convert_to(u.dedupe_key, 'UTF8')), 'hex')
      else u.dedupe_key end, u.id, coalesce(u.max_attempts, d.max_attempts),
    u.correlation_id, u.traceparent, u.tags, coalesce(u.source, 'manual'), u.source_ref, u.concurrency_key, coalesce(p_retention, d.retention),
    case
      when u.type is null then 'JF001:type_missing'
      when d.key is null then 'JF002:unknown_definition'
      when u.queue is not null and u.queue !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$' then 'JF001:queue_malformed'
      when u.priority not between 0 and 1000 then 'JF001:priority_out_of_range'
      when u.priority < 10 and not p_operator then 'JF009:priority_reserved'
      when u.run_at is not null and u.run_at not between p_now - interval '10 years' and p_now + interval '10 years'
        then 'JF001:run_at_out_of_range'
      when u.max_attempts not between 1 and 1000 then 'JF001:max_attempts_out_of_range'
      when length(u.idempotency_key) not between 1 and 255 then 'JF001:idempotency_key_length'
      when length(u.dedupe_key) not between 1 and 300000 then 'JF001:dedupe_key_length'
      when substr(u.id::text, 15, 1) <> '7' then 'JF001:id_not_version_7'
      when u.id is not null and abs(extract(epoch from p_now) * 1000
        - ('x0000' || substr(replace(u.id::text, '-', ''), 1, 12))::bit(64)::bigint) > 86400000 then 'JF001:id_not_recent'
      when length(u.correlation_id) not between 1 and 255 then 'JF001:correlation_id_length'
      when u.traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then 'JF001:traceparent_malformed'
      when jsonb_typeof(u.tags) <> 'array' or octet_length(u.tags::text) > 2000 then 'JF001:tags_malformed'
      when u.source not in ('manual', 'event', 'schedule', 'system', 'workflow') then 'JF001:source_unknown'
      when length(u.source_ref) > 255 then 'JF001:source_ref_length'
      when length(u.concurrency_key) not between 1 and 255 then 'JF001:concurrency_key_length'
      -- Last: a key or an id that is known is answered all the same, of a row that is sound.
      else coalesce(jobforge.payload_problem(u.payload), case
        when not d.is_active then 'JF002:inactive_definition' when u.ordinality > p_room then 'JF005:max_pending' end)
    end
  -- The subscripts are there for the planner: it expects a thousand of them, and ten of what only unnests a parameter. So
  -- it hashes the definitions, each looked up once, and not the rows, which must stay in their order.
  from rows from (unnest(p_types, p_payloads, p_queues, p_priorities, p_run_ats, p_idempotency_keys, p_dedupe_keys, p_ids,
         p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources, p_source_refs, p_concurrency_keys),
         generate_subscripts(p_types, 1))
       with ordinality as u(type, payload, queue, priority, run_at, idempotency_key, dedupe_key, id, max_attempts,
         correlation_id, traceparent, tags, source, source_ref, concurrency_key, subscript, ordinality)
  left join jobforge.definitions d on d.key = u.type and d.key = any (p_types)
$$;
comment on function jobforge.check_jobs(timestamptz, boolean, text[], jsonb[], text[], integer[], timestamptz[], text[],
  text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text[], integer, text) is
  'The rows of a batch with their definitions'' defaults and what is wrong with each, as code:reason.';
grant execute on function jobforge.check_jobs(timestamptz, boolean, text[], jsonb[], text[], integer[], timestamptz[], text[],
  text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text[], integer, text) to jf_sys;

create or replace function jobforge.payload_problem(p_payload jsonb) returns text
language sql immutable
as $$
  -- In 250 bytes there is no room for more than 125 levels or a number of 400 digits.
  select case when octet_length(p_payload::text) <= 250 then null else jobforge.large_payload_problem(p_payload) end
$$;
comment on function jobforge.payload_problem(jsonb) is
  'What is wrong with a payload (missing, over 256 KiB, deeper than 128, a number of over 400 digits), or null. One '
  'expression, so that the planner inlines it: most payloads are small.';
grant execute on function jobforge.payload_problem(jsonb) to jf_sys;

create or replace function jobforge.large_payload_problem(p_payload jsonb) returns text
language plpgsql immutable
as $$
declare
  v_text text := p_payload::text;
begin
  if v_text is null then
    return 'JF003:payload_missing';
  elsif octet_length(v_text) > 262144 then
    return 'JF003:payload_too_large';
  elsif jsonb_path_exists(p_payload, 'strict $.**{129}') then
    return 'JF003:payload_too_deep';
  elsif v_text ~ '[0-9]{200}[0-9]{200}' and exists (
      select from jsonb_path_query(p_payload, 'strict $.** ? (@.type() == "number")') as n where length(n::text) > 400) then
    return 'JF003:number_too_long';
  end if;
  return null;
end
$$;
comment on function jobforge.large_payload_problem(jsonb) is 'The other half of payload_problem: of a large or missing one.';
grant execute on function jobforge.large_payload_problem(jsonb) to jf_sys;

create or replace function jobforge.require_columns(p_rows integer, variadic p_lengths integer[]) returns void
language plpgsql immutable
as $$
begin
  if p_rows is null or p_rows not between 1 and 10000 then
    perform jobforge.refuse('JF001', 'batch_size', 'a batch holds 1 to 10000 rows');
  end if;
  if exists (select from unnest(p_lengths) as n where n <> p_rows) then
    perform jobforge.refuse('JF001', 'columns_differ', 'the columns of a batch differ in length');
  end if;
end
$$;
comment on function jobforge.require_columns(integer, integer[]) is
  'Refuses a batch that is empty, over 10000 rows, or has columns of different length (null columns are left out).';
grant execute on function jobforge.require_columns(integer, integer[]) to jf_sys;
