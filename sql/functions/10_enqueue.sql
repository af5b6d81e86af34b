-- owner: jf_fn
-- Enqueue: the batch form is the real one; the single form calls it and raises where the batch answers with a code.

create or replace function jobforge.enqueue_job(
  p_tenant_id uuid, p_type text, p_payload jsonb default '{}', p_queue text default null, p_priority integer default null,
  p_run_at timestamptz default null, p_idempotency_key text default null, p_dedupe_key text default null,
  p_id uuid default null, p_max_attempts integer default null, p_correlation_id text default null,
  p_traceparent text default null, p_tags jsonb default null, p_source text default null, p_source_ref text default null,
  p_created_by text default null, p_concurrency_key text default null,
  out id uuid, out status text, out existing boolean, out run_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_row record;
begin
  -- Most jobs are plain, and their path is the cheaper one.
  if coalesce(p_queue, p_idempotency_key, p_dedupe_key, p_correlation_id, p_traceparent, p_source, p_source_ref,
      p_concurrency_key) is null and p_priority is null and p_run_at is null and p_id is null and p_max_attempts is null
      and p_tags is null then
    id := jobforge.enqueue_plain(p_tenant_id, p_type, p_payload, p_created_by);
    status := 'queued'; existing := false; run_at := jobforge.id_time(id);
    return;
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
    p_created_by, case when p_concurrency_key is not null then array[p_concurrency_key] end);
  if v_row.error_code <> '' then
    perform jobforge.refuse(v_row.error_code, v_row.error_reason, format('enqueue of %s refused: %s', p_type,
      replace(v_row.error_reason, '_', ' ')));
  end if;
  id := v_row.id; status := v_row.status; existing := v_row.existing; run_at := v_row.run_at;
end
$$;
comment on function jobforge.enqueue_job(uuid, text, jsonb, text, integer, timestamptz, text, text, uuid, integer, text,
  text, jsonb, text, text, text, text) is
  'Enqueues one job in the caller''s transaction; a known idempotency key or a living dedupe twin answers with existing = true.';
grant execute on function jobforge.enqueue_job(uuid, text, jsonb, text, integer, timestamptz, text, text, uuid, integer,
  text, text, jsonb, text, text, text, text) to jf_tenant, jf_operator;

create or replace function jobforge.enqueue_jobs(
  p_tenant_id uuid, p_types text[], p_payloads jsonb[], p_queues text[] default null, p_priorities integer[] default null,
  p_run_ats timestamptz[] default null, p_idempotency_keys text[] default null, p_dedupe_keys text[] default null,
  p_ids uuid[] default null, p_max_attempts integer[] default null, p_correlation_ids text[] default null,
  p_traceparents text[] default null, p_tags jsonb[] default null, p_sources text[] default null,
  p_source_refs text[] default null, p_created_by text default null, p_concurrency_keys text[] default null)
returns table (at integer, id uuid, status text, existing boolean, run_at timestamptz, error_code text, error_reason text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_base bigint := jobforge.id_base(v_now);
  v_tail text := jobforge.id_tail();
  v_operator boolean := pg_has_role(session_user, 'jf_operator', 'member');
  v_rows integer := cardinality(p_types);
  v_room integer;
  v_retention text;
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_columns(v_rows, cardinality(p_payloads), cardinality(p_queues), cardinality(p_priorities),
    cardinality(p_run_ats), cardinality(p_idempotency_keys), cardinality(p_dedupe_keys), cardinality(p_ids),
    cardinality(p_max_attempts), cardinality(p_correlation_ids), cardinality(p_traceparents), cardinality(p_tags),
    cardinality(p_sources), cardinality(p_source_refs), cardinality(p_concurrency_keys));
  if length(p_created_by) > 255 then
    perform jobforge.refuse('JF001', 'created_by_length', 'p_created_by is longer than 255');
  end if;

  select case when t.max_pending is not null then jobforge.pending_room(p_tenant_id, t.max_pending, v_now) end, t.retention
  into v_room, v_retention from jobforge.tenants t where t.id = p_tenant_id;

  if p_idempotency_keys is null and p_dedupe_keys is null and p_ids is null then
    return query
    with checked as materialized (
      select c.*, jobforge.make_id(v_base, v_tail, c.at) as new_id
      from jobforge.check_jobs(v_now, v_operator, p_types, p_payloads, p_queues, p_priorities, p_run_ats, null, null, null,
        p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources, p_source_refs, p_concurrency_keys, v_room,
        v_retention) as c
    ), inserted as (
      insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention, queue,
        type, payload, correlation_id, traceparent, tags, source, source_ref, created_by, concurrency_key, keyed)
      select p_tenant_id, c.new_id, c.run_at, v_now, c.max_attempts, c.priority, c.run_at <= v_now, 'queued', c.retention,
        c.queue, c.type, c.payload, c.correlation_id, c.traceparent, c.tags, c.source, c.source_ref, p_created_by,
        c.concurrency_key, c.concurrency_key is not null
      from checked c where c.problem is null
    )
    select c.at, case when c.problem is null then c.new_id end, case when c.problem is null then 'queued' end, false,
      c.run_at, split_part(c.problem, ':', 1), split_part(c.problem, ':', 2)
    from checked c;
  else
    return query
    select * from jobforge.enqueue_keyed(p_tenant_id, p_types, p_payloads, p_queues, p_priorities, p_run_ats,
      p_idempotency_keys, p_dedupe_keys, p_ids, p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources,
      p_source_refs, p_created_by, p_concurrency_keys, v_room, v_retention);
  end if;

  perform jobforge.wake(p_types, p_queues, v_now);
end
$$;
comment on function jobforge.enqueue_jobs(uuid, text[], jsonb[], text[], integer[], timestamptz[], text[], text[], uuid[],
  integer[], text[], text[], jsonb[], text[], text[], text, text[]) is
  'Enqueues a batch given as columns; answers each row with its job, or with a code and a reason while the others go on.';
grant execute on function jobforge.enqueue_jobs(uuid, text[], jsonb[], text[], integer[], timestamptz[], text[], text[],
  uuid[], integer[], text[], text[], jsonb[], text[], text[], text, text[]) to jf_tenant, jf_operator;

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
grant execute on function jobforge.wake(text[], text[], timestamptz) to jf_sys;
