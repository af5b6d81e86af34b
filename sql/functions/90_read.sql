-- owner: jf_fn
-- Look: one job, a page of jobs, a job's attempts. Under the tenant, subject to row-level security.

create or replace function jobforge.find_job(p_tenant_id uuid, p_job_id uuid)
returns table (
  id uuid, type text, queue text, priority integer, status text, run_at timestamptz, created_at timestamptz,
  started_at timestamptz, finished_at timestamptz, attempt integer, failures integer, deaths integer, max_attempts integer,
  retention text, dedupe_key text, concurrency_key text, correlation_id text, traceparent text, tags jsonb, source text, source_ref text,
  created_by text, parent_id uuid, worker_no integer, cancel_requested boolean, error text, payload jsonb, result jsonb)
language sql stable
as $$
  select j.id, j.type, j.queue, j.priority::integer, j.status, j.run_at, j.created_at, j.started_at, j.finished_at, j.fence,
    j.failures, j.deaths::integer, j.max_attempts::integer, j.retention, j.dedupe_key, j.concurrency_key, j.correlation_id, j.traceparent,
    j.tags, j.source, j.source_ref, j.created_by, j.parent_id, j.worker_no, j.cancel_at is not null, j.error, j.payload,
    null::jsonb
  from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = p_job_id
  union all
  select h.id, h.type, h.queue, h.priority::integer, h.status, h.run_at, h.created_at, h.started_at, h.finished_at, h.fence,
    h.failures, h.deaths::integer, h.max_attempts::integer, h.retention, h.dedupe_key, h.concurrency_key, h.correlation_id, h.traceparent,
    h.tags, h.source, h.source_ref, h.created_by, h.parent_id, h.worker_no, false, h.error, h.payload, h.result
  from jobforge.job_history h where h.tenant_id = p_tenant_id and h.id = p_job_id
$$;
comment on function jobforge.find_job(uuid, uuid) is 'A job wherever it is, live or over; called under the tenant.';

create or replace function jobforge.get_job(p_tenant_id uuid, p_job_id uuid)
returns table (
  id uuid, type text, queue text, priority integer, status text, run_at timestamptz, created_at timestamptz,
  started_at timestamptz, finished_at timestamptz, attempt integer, failures integer, deaths integer, max_attempts integer,
  retention text, dedupe_key text, concurrency_key text, correlation_id text, traceparent text, tags jsonb, source text, source_ref text,
  created_by text, parent_id uuid, worker_id text, cancel_requested boolean, error text, payload jsonb, result jsonb,
  progress_percent real, progress_message text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  return query
  select f.id, f.type, f.queue, f.priority, f.status, f.run_at, f.created_at, f.started_at, f.finished_at, f.attempt,
    f.failures, f.deaths, f.max_attempts, f.retention,
    -- A derived key is the payload once more.
    case when r.paths <> '{}' and starts_with(f.dedupe_key, f.type || '::') then '[redacted]' else f.dedupe_key end,
    f.concurrency_key, f.correlation_id, f.traceparent, f.tags, f.source, f.source_ref, f.created_by, f.parent_id, w.worker_id,
    f.cancel_requested, f.error, jobforge.redact_payload(f.payload, r.paths),
    case when r.paths <> '{}' then jobforge.redact_strings(jobforge.redact(f.result, r.paths),
      jobforge.redacted_values(f.payload, r.paths)) else f.result end, p.percent, p.message
  from jobforge.find_job(p_tenant_id, p_job_id) as f
  cross join lateral (select coalesce(jobforge.redact_paths(f.type), '{}')) as r(paths)
  left join jobforge.workers w on w.no = f.worker_no
  left join jobforge.job_progress p on p.tenant_id = p_tenant_id and p.job_id = f.id
  order by f.finished_at nulls first limit 1;
  if not found then
    perform jobforge.refuse('JF007', 'job_unknown', format('job %s is not known', p_job_id));
  end if;
end
$$;
comment on function jobforge.get_job(uuid, uuid) is 'Everything about one job, with its payload, result and progress; redacted by its definition.';
grant execute on function jobforge.get_job(uuid, uuid) to jf_tenant, jf_operator;

-- A function whose arguments grew would stand beside the old one.
drop function if exists jobforge.list_jobs(uuid, text[], text, text, text, timestamptz, timestamptz, integer, uuid, integer);
create or replace function jobforge.list_jobs(
  p_tenant_id uuid, p_statuses text[] default null, p_type text default null, p_queue text default null,
  p_source text default null, p_created_after timestamptz default null, p_created_before timestamptz default null,
  p_limit integer default 50, p_cursor uuid default null, p_budget_ms integer default 500, p_tag text default null,
  p_payload jsonb default null)
returns table (
  id uuid, type text, queue text, priority integer, status text, run_at timestamptz, created_at timestamptz,
  started_at timestamptz, finished_at timestamptz, attempt integer, failures integer, max_attempts integer, source text,
  correlation_id text, tags jsonb, error text, next_cursor uuid, complete boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  v_until timestamptz := clock_timestamp() + make_interval(secs => p_budget_ms / 1000.0);
  v_cursor uuid := coalesce(p_cursor, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  v_left integer := p_limit;
  v_job record;
  v_type text;
  v_paths text[];
  v_seen integer;
  v_is_late boolean := false;
begin
  perform jobforge.require_tenant(p_tenant_id);
  if p_limit is null or p_limit not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 1000');
  elsif p_budget_ms is null or p_budget_ms not between 1 and 60000 then
    perform jobforge.refuse('JF001', 'budget_out_of_range', 'p_budget_ms must be 1 to 60000');
  elsif exists (select from unnest(p_statuses) as s
      where (s in ('blocked', 'queued', 'running', 'succeeded', 'failed', 'dead', 'canceled')) is not true) then
    perform jobforge.refuse('JF001', 'status_unknown', 'p_statuses names a status that does not exist');
  elsif p_source not in ('manual', 'event', 'schedule', 'system', 'workflow') then
    perform jobforge.refuse('JF001', 'source_unknown', 'p_source is manual, event, schedule, system or workflow');
  end if;
  -- Newest first by id, a thousand at a time; a filter that finds little ends at its budget with a cursor to go on from.
  loop
    v_seen := 0;
    for v_job in
      select * from jobforge.next_jobs(p_tenant_id, v_cursor,
        p_statuses is null or p_statuses && array['blocked', 'queued', 'running', 'failed', 'dead'],
        p_statuses is null or p_statuses && array['succeeded', 'canceled'])
    loop
      -- Redacting takes its time: such a search may have to end within a thousand.
      v_is_late := p_payload is not null and v_seen % 50 = 49 and clock_timestamp() > v_until;
      exit when v_is_late;
      v_seen := v_seen + 1;
      v_cursor := v_job.id;
      continue when not (p_statuses is null or v_job.status = any (p_statuses))
        or not (p_type is null or v_job.type = p_type) or not (p_queue is null or v_job.queue = p_queue)
        or not (p_source is null or v_job.source = p_source)
        or not (p_created_after is null or v_job.created_at >= p_created_after)
        or not (p_created_before is null or v_job.created_at < p_created_before)
        or not (p_tag is null or coalesce(v_job.tags ? p_tag, false));
      if p_payload is not null then
        if v_job.type is distinct from v_type then
          v_type := v_job.type;
          v_paths := jobforge.redact_paths(v_type);
        end if;
        -- What is not shown is not found either: guesses would tell it.
        continue when not jobforge.redact_payload(v_job.payload, v_paths) @> p_payload;
      end if;
      id := v_job.id; type := v_job.type; queue := v_job.queue; priority := v_job.priority; status := v_job.status;
      run_at := v_job.run_at; created_at := v_job.created_at; started_at := v_job.started_at;
      finished_at := v_job.finished_at; attempt := v_job.fence; failures := v_job.failures;
      max_attempts := v_job.max_attempts; source := v_job.source; correlation_id := v_job.correlation_id;
      tags := v_job.tags; error := v_job.error;
      return next;
      v_left := v_left - 1;
      exit when v_left = 0;
    end loop;
    exit when v_left = 0 or v_is_late or v_seen < 1000 or clock_timestamp() > v_until;
  end loop;
  return query select null::uuid, null, null, null::integer, null, null::timestamptz, null::timestamptz, null::timestamptz,
    null::timestamptz, null::integer, null::integer, null::integer, null, null, null::jsonb, null,
    case when v_left = 0 or v_is_late or v_seen = 1000 then v_cursor end, v_left = 0 or not (v_is_late or v_seen = 1000);
end
$$;
comment on function jobforge.list_jobs(uuid, text[], text, text, text, timestamptz, timestamptz, integer, uuid, integer, text,
  jsonb) is
  'A page of jobs, newest first; with p_tag those that have it, with p_payload those whose payload, as it is shown, contains '
  'it. The last row has no id: it tells the cursor of the next page and whether this one is '
  'complete (a filter that ran out of its time budget gives a partial page).';
grant execute on function jobforge.list_jobs(uuid, text[], text, text, text, timestamptz, timestamptz, integer, uuid, integer, text,
  jsonb) to jf_tenant, jf_operator;

-- A function whose columns grew cannot be replaced.
drop function if exists jobforge.next_jobs(uuid, uuid, boolean, boolean);
create or replace function jobforge.next_jobs(p_tenant_id uuid, p_before uuid, p_live boolean, p_over boolean)
returns table (id uuid, type text, queue text, priority smallint, status text, run_at timestamptz, created_at timestamptz,
  started_at timestamptz, finished_at timestamptz, fence integer, failures integer, max_attempts smallint, source text,
  correlation_id text, tags jsonb, error text, payload jsonb)
language sql stable
as $$
  (select j.id, j.type, j.queue, j.priority, j.status, j.run_at, j.created_at, j.started_at, j.finished_at, j.fence,
     j.failures, j.max_attempts, j.source, j.correlation_id, j.tags, j.error, j.payload
   from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id < p_before and p_live order by j.id desc limit 1000)
  union all
  (select h.id, h.type, h.queue, h.priority, h.status, h.run_at, h.created_at, h.started_at, h.finished_at, h.fence,
     h.failures, h.max_attempts, h.source, h.correlation_id, h.tags, h.error, h.payload
   from jobforge.job_history h where h.tenant_id = p_tenant_id and h.id < p_before and p_over order by h.id desc limit 1000)
  order by 1 desc limit 1000
$$;
comment on function jobforge.next_jobs(uuid, uuid, boolean, boolean) is
  'The next thousand jobs of a tenant before an id, live and over merged; called under the tenant.';
grant execute on function jobforge.next_jobs(uuid, uuid, boolean, boolean) to jf_sys;

-- A function whose columns grew cannot be replaced.
drop function if exists jobforge.list_attempts(uuid, uuid);
create or replace function jobforge.list_attempts(p_tenant_id uuid, p_job_id uuid)
returns table (number integer, status text, worker_id text, pid integer, started_at timestamptz, finished_at timestamptz,
  error_class text, error text, exit_code integer, signal integer, stdout_tail text, stderr_tail text, log jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  return query
  with told as (
    select a.number, a.status, a.worker_no, a.started_at, a.finished_at, a.error_class, a.error, a.exit_code, a.stdout_tail,
      a.stderr_tail
    from jobforge.attempts a where a.tenant_id = p_tenant_id and a.job_id = p_job_id
    union all
    select a.number, a.status, a.worker_no, a.started_at, a.finished_at, a.error_class, a.error, a.exit_code, a.stdout_tail,
      a.stderr_tail
    from jobforge.attempt_history a where a.tenant_id = p_tenant_id and a.job_id = p_job_id
    union all
    -- The attempt that runs, or that ended the job well, is told by the job's own row.
    select f.attempt, f.status, f.worker_no, f.started_at, f.finished_at, null, null, null, null, null
    from jobforge.find_job(p_tenant_id, p_job_id) as f where f.status in ('running', 'succeeded')
  )
  select t.number, t.status, w.worker_id, coalesce(e.pid, w.pid), t.started_at, t.finished_at, t.error_class, t.error,
    coalesce(t.exit_code, e.exit_code), e.signal, coalesce(t.stdout_tail, e.stdout_tail), coalesce(t.stderr_tail, e.stderr_tail),
    (select jsonb_agg(jsonb_build_object('at', l.at, 'level', l.level, 'message', l.message) order by l.line_no)
     from (select g.at, g.level, g.message, g.line_no from jobforge.job_logs g
           where g.tenant_id = p_tenant_id and g.job_id = p_job_id and g.number = t.number
           union all
           select g.at, g.level, g.message, g.line_no from jobforge.log_history g
           where g.tenant_id = p_tenant_id and g.job_id = p_job_id and g.number = t.number) as l)
  from told t left join jobforge.workers w on w.no = t.worker_no
  left join lateral (
    select x.pid, x.exit_code, x.signal, x.stdout_tail, x.stderr_tail from jobforge.attempt_exits x
    where x.tenant_id = p_tenant_id and x.job_id = p_job_id and x.number = t.number
    union all
    select x.pid, x.exit_code, x.signal, x.stdout_tail, x.stderr_tail from jobforge.exit_history x
    where x.tenant_id = p_tenant_id and x.job_id = p_job_id and x.number = t.number limit 1) as e on true
  order by t.number;
end
$$;
comment on function jobforge.list_attempts(uuid, uuid) is
  'A job''s attempts in order, with their worker, process (that of the program it started, else the worker''s), end, error, exit '
  'code or signal, tails and log lines.';
grant execute on function jobforge.list_attempts(uuid, uuid) to jf_tenant, jf_operator;

create or replace function jobforge.dedupe_key(p_tenant_id uuid, p_type text, p_payload jsonb) returns text
language sql immutable
as $$
  select p_type || '::' || case when p_tenant_id = '00000000-0000-0000-0000-000000000000' then 'global'
    else p_tenant_id::text end || '::' || jobforge.canonical(p_payload)
$$;
comment on function jobforge.dedupe_key(uuid, text, jsonb) is
  'The derived dedupe key for callers who have none: type::tenant::canonical JSON.';
grant execute on function jobforge.dedupe_key(uuid, text, jsonb) to jf_tenant, jf_operator;

create or replace function jobforge.canonical(p_value jsonb) returns text
language plpgsql immutable
as $$
begin
  -- Keys sorted by their bytes, no spaces, numbers without trailing zeros: the same text in every language.
  return case jsonb_typeof(p_value)
    when 'object' then '{' || coalesce((
      select string_agg(to_jsonb(e.key)::text || ':' || jobforge.canonical(e.value), ',' order by e.key collate "C")
      from jsonb_each(p_value) as e), '') || '}'
    when 'array' then '[' || coalesce((
      select string_agg(jobforge.canonical(e.value), ',' order by e.ordinality)
      from jsonb_array_elements(p_value) with ordinality as e(value, ordinality)), '') || ']'
    when 'number' then trim_scale((p_value #>> '{}')::numeric)::text
    else p_value::text
  end;
end
$$;
comment on function jobforge.canonical(jsonb) is 'JSON with sorted keys, no spaces and plain numbers.';
grant execute on function jobforge.canonical(jsonb) to jf_tenant, jf_operator;
