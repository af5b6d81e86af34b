-- owner: jf_fn
-- Enqueue: the batch form is the real one; the single form calls it and raises where the batch answers with a code.

create or replace function jobforge.payload_problem(p_payload jsonb) returns text
language plpgsql immutable
as $$
declare
  v_text text := p_payload::text;
begin
  if v_text is null then
    return 'JF003:payload_missing';
  end if;
  -- In 250 bytes there is no room for more than 125 levels or a number of 400 digits.
  if octet_length(v_text) <= 250 then
    return null;
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
comment on function jobforge.payload_problem(jsonb) is
  'What is wrong with a payload (missing, over 256 KiB, deeper than 128, a number of over 400 digits), or null.';

create or replace function jobforge.check_jobs(
  p_now timestamptz, p_operator boolean, p_types text[], p_payloads jsonb[], p_queues text[], p_priorities integer[],
  p_run_ats timestamptz[], p_idempotency_keys text[], p_dedupe_keys text[], p_ids uuid[], p_max_attempts integer[],
  p_correlation_ids text[], p_traceparents text[], p_tags jsonb[], p_sources text[], p_source_refs text[])
returns table (
  at integer, type text, payload jsonb, queue text, priority integer, run_at timestamptz, idempotency_key text,
  dedupe_key text, given_id uuid, max_attempts integer, correlation_id text, traceparent text, tags jsonb, source text,
  source_ref text, retention text, problem text)
language sql stable
as $$
  select
    u.ordinality::integer, u.type, u.payload, coalesce(u.queue, d.queue), coalesce(u.priority, d.priority),
    greatest(u.run_at, p_now), u.idempotency_key,
    case when length(u.dedupe_key) > 255 then 'sha256:' || encode(sha256(convert_to(u.dedupe_key, 'UTF8')), 'hex')
      else u.dedupe_key end, u.id, coalesce(u.max_attempts, d.max_attempts),
    u.correlation_id, u.traceparent, u.tags, coalesce(u.source, 'manual'), u.source_ref, d.retention,
    case
      when u.type is null then 'JF001:type_missing'
      when d.key is null then 'JF002:unknown_definition'
      when not d.is_active then 'JF002:inactive_definition'
      when u.queue is not null and u.queue !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$' then 'JF001:queue_malformed'
      when u.priority not between 0 and 1000 then 'JF001:priority_out_of_range'
      when u.priority < 10 and not p_operator then 'JF009:priority_reserved'
      when u.run_at not between p_now - interval '10 years' and p_now + interval '10 years' then 'JF001:run_at_out_of_range'
      when u.max_attempts not between 1 and 1000 then 'JF001:max_attempts_out_of_range'
      when length(u.idempotency_key) not between 1 and 255 then 'JF001:idempotency_key_length'
      when length(u.dedupe_key) not between 1 and 300000 then 'JF001:dedupe_key_length'
      when substr(u.id::text, 15, 1) <> '7' then 'JF001:id_not_version_7'
      when abs(extract(epoch from p_now) * 1000
        - ('x0000' || substr(replace(u.id::text, '-', ''), 1, 12))::bit(64)::bigint) > 86400000 then 'JF001:id_not_recent'
      when length(u.correlation_id) not between 1 and 255 then 'JF001:correlation_id_length'
      when u.traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then 'JF001:traceparent_malformed'
      when jsonb_typeof(u.tags) <> 'array' or octet_length(u.tags::text) > 2000 then 'JF001:tags_malformed'
      when u.source not in ('manual', 'event', 'schedule', 'system', 'workflow') then 'JF001:source_unknown'
      when length(u.source_ref) > 255 then 'JF001:source_ref_length'
      else jobforge.payload_problem(u.payload)
    end
  from unnest(p_types, p_payloads, p_queues, p_priorities, p_run_ats, p_idempotency_keys, p_dedupe_keys, p_ids,
         p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources, p_source_refs) with ordinality
       as u(type, payload, queue, priority, run_at, idempotency_key, dedupe_key, id, max_attempts, correlation_id,
         traceparent, tags, source, source_ref, ordinality)
  left join jobforge.definitions d on d.key = u.type
$$;
comment on function jobforge.check_jobs(timestamptz, boolean, text[], jsonb[], text[], integer[], timestamptz[], text[],
  text[], uuid[], integer[], text[], text[], jsonb[], text[], text[]) is
  'The rows of a batch with their definitions'' defaults and what is wrong with each, as code:reason.';

create or replace function jobforge.enqueue_jobs(
  p_tenant_id uuid, p_types text[], p_payloads jsonb[], p_queues text[] default null, p_priorities integer[] default null,
  p_run_ats timestamptz[] default null, p_idempotency_keys text[] default null, p_dedupe_keys text[] default null,
  p_ids uuid[] default null, p_max_attempts integer[] default null, p_correlation_ids text[] default null,
  p_traceparents text[] default null, p_tags jsonb[] default null, p_sources text[] default null,
  p_source_refs text[] default null, p_created_by text default null)
returns table (at integer, id uuid, status text, existing boolean, run_at timestamptz, error_code text, error_reason text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_base bigint := jobforge.id_base(v_now);
  v_rows integer := cardinality(p_types);
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_columns(v_rows, cardinality(p_payloads), cardinality(p_queues), cardinality(p_priorities),
    cardinality(p_run_ats), cardinality(p_idempotency_keys), cardinality(p_dedupe_keys), cardinality(p_ids),
    cardinality(p_max_attempts), cardinality(p_correlation_ids), cardinality(p_traceparents), cardinality(p_tags),
    cardinality(p_sources), cardinality(p_source_refs));
  if length(p_created_by) > 255 then
    perform jobforge.refuse('JF001', 'created_by_length', 'p_created_by is longer than 255');
  end if;

  if p_idempotency_keys is null and p_dedupe_keys is null and p_ids is null then
    return query
    with checked as materialized (
      select c.*, jobforge.make_id(v_base, c.at) as new_id
      from jobforge.check_jobs(v_now, pg_has_role(session_user, 'jf_operator', 'member'), p_types, p_payloads, p_queues,
        p_priorities, p_run_ats, null, null, null, p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources,
        p_source_refs) as c
    ), inserted as (
      insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention, queue,
        type, payload, correlation_id, traceparent, tags, source, source_ref, created_by)
      select p_tenant_id, c.new_id, c.run_at, v_now, c.max_attempts, c.priority, c.run_at <= v_now, 'queued', c.retention,
        c.queue, c.type, c.payload, c.correlation_id, c.traceparent, c.tags, c.source, c.source_ref, p_created_by
      from checked c where c.problem is null
    )
    select c.at, case when c.problem is null then c.new_id end, case when c.problem is null then 'queued' end, false,
      c.run_at, split_part(c.problem, ':', 1), split_part(c.problem, ':', 2)
    from checked c;
  else
    return query
    select * from jobforge.enqueue_keyed(p_tenant_id, p_types, p_payloads, p_queues, p_priorities, p_run_ats,
      p_idempotency_keys, p_dedupe_keys, p_ids, p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources,
      p_source_refs, p_created_by);
  end if;

  perform jobforge.wake(p_types, p_queues, v_now);
end
$$;
comment on function jobforge.enqueue_jobs(uuid, text[], jsonb[], text[], integer[], timestamptz[], text[], text[], uuid[],
  integer[], text[], text[], jsonb[], text[], text[], text) is
  'Enqueues a batch given as columns; answers each row with its job, or with a code and a reason while the others go on.';
grant execute on function jobforge.enqueue_jobs(uuid, text[], jsonb[], text[], integer[], timestamptz[], text[], text[],
  uuid[], integer[], text[], text[], jsonb[], text[], text[], text) to jf_tenant, jf_operator;

create or replace function jobforge.wake(p_types text[], p_queues text[], p_now timestamptz) returns void
language plpgsql volatile
as $$
begin
  -- Asked last, so that its snapshot is the newest: a worker that went to sleep meanwhile is seen.
  if exists (select from jobforge.sleepers s where s.expires_at > p_now and s.types && p_types
             and (p_queues is null or array_position(p_queues, null) is not null or s.queues && p_queues)) then
    perform pg_notify('jobforge_wake', '');
  end if;
end
$$;
comment on function jobforge.wake(text[], text[], timestamptz) is
  'Notifies when somebody sleeps who runs one of these types in one of these queues (any queue where null).';

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

create or replace function jobforge.enqueue_job(
  p_tenant_id uuid, p_type text, p_payload jsonb default '{}', p_queue text default null, p_priority integer default null,
  p_run_at timestamptz default null, p_idempotency_key text default null, p_dedupe_key text default null,
  p_id uuid default null, p_max_attempts integer default null, p_correlation_id text default null,
  p_traceparent text default null, p_tags jsonb default null, p_source text default null, p_source_ref text default null,
  p_created_by text default null,
  out id uuid, out status text, out existing boolean, out run_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_asleep boolean;
  v_row record;
begin
  -- A plain job needs no more than its definition: most are, and this path costs half of the other. Whatever is
  -- wrong with it, the batch form finds and says.
  if coalesce(p_queue, p_idempotency_key, p_dedupe_key, p_correlation_id, p_traceparent, p_source, p_source_ref, p_created_by)
      is null and p_priority is null and p_run_at is null and p_id is null and p_max_attempts is null and p_tags is null then
    insert into jobforge.jobs as j (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention,
      queue, type, payload, source)
    select p_tenant_id, jobforge.make_id(jobforge.id_base(v_now), 0), v_now, v_now, d.max_attempts, d.priority, true,
      'queued', d.retention, d.queue, d.key, p_payload, 'manual'
    from jobforge.definitions d
    where d.key = p_type and d.is_active and jobforge.payload_problem(p_payload) is null
      and p_tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
      and exists (select from jobforge.tenants t where t.id = p_tenant_id)
      and exists (select from jobforge.logins l where l.role_name = session_user::text
                  and (l.tenant_id is null or l.tenant_id = p_tenant_id))
    returning j.id, j.status, false, j.run_at, exists (
      select from jobforge.sleepers s where s.expires_at > v_now and j.type = any (s.types) and j.queue = any (s.queues))
    into id, status, existing, run_at, v_asleep;
    if id is not null then
      if v_asleep then
        perform pg_notify('jobforge_wake', '');
      end if;
      return;
    end if;
  end if;

  select * into v_row from jobforge.enqueue_jobs(
    p_tenant_id, array[p_type], array[p_payload],
    case when p_queue is not null then array[p_queue] end,
    case when p_priority is not null then array[p_priority] end,
    case when p_run_at is not null then array[p_run_at] end,
    case when p_idempotency_key is not null then array[p_idempotency_key] end,
    case when p_dedupe_key is not null then array[p_dedupe_key] end,
    case when p_id is not null then array[p_id] end,
    case when p_max_attempts is not null then array[p_max_attempts] end,
    case when p_correlation_id is not null then array[p_correlation_id] end,
    case when p_traceparent is not null then array[p_traceparent] end,
    case when p_tags is not null then array[p_tags] end,
    case when p_source is not null then array[p_source] end,
    case when p_source_ref is not null then array[p_source_ref] end,
    p_created_by);
  if v_row.error_code <> '' then
    perform jobforge.refuse(v_row.error_code, v_row.error_reason, format('enqueue of %s refused: %s', p_type,
      replace(v_row.error_reason, '_', ' ')));
  end if;
  id := v_row.id; status := v_row.status; existing := v_row.existing; run_at := v_row.run_at;
end
$$;
comment on function jobforge.enqueue_job(uuid, text, jsonb, text, integer, timestamptz, text, text, uuid, integer, text,
  text, jsonb, text, text, text) is
  'Enqueues one job in the caller''s transaction; a known idempotency key or a living dedupe twin answers with existing = true.';
grant execute on function jobforge.enqueue_job(uuid, text, jsonb, text, integer, timestamptz, text, text, uuid, integer,
  text, text, jsonb, text, text, text) to jf_tenant, jf_operator;
