-- owner: jf_sys
-- Fail: `settle` alone chooses between retry, failed, dead and canceled, for reports and for the reaper alike.

create or replace function jobforge.settle(
  p_outcome text, p_failures integer, p_deaths integer, p_max_attempts integer, p_cancel_at timestamptz,
  p_definition jobforge.definitions, p_retry_after_ms bigint, p_now timestamptz, out status text, out run_at timestamptz)
language plpgsql volatile
as $$
declare
  v_delay double precision;
begin
  if p_cancel_at is not null or p_outcome = 'canceled' then
    status := 'canceled';
  elsif p_outcome = 'permanent' then
    status := 'failed';
  elsif p_outcome = 'lost' and p_deaths >= coalesce(p_definition.max_deaths, 5) then
    status := 'dead';
  elsif p_outcome = 'retryable' and p_failures >= p_max_attempts then
    status := 'dead';
  else
    status := 'queued';
    if p_outcome = 'lost' then
      v_delay := 2000 * random();
    else
      -- power() past 2^60 times the base is beyond any cap: the exponent stops there, so that nothing overflows.
      v_delay := least(coalesce(p_definition.retry_cap_ms, 3600000),
        coalesce(p_definition.retry_base_ms, 1000)
          * power(coalesce(p_definition.retry_factor, 2)::double precision, least(p_failures - 1, 60)));
      v_delay := v_delay * (1 + coalesce(p_definition.retry_jitter, 0.1) * (2 * random() - 1));
      -- A server's wish is never undercut, only spread behind it.
      v_delay := greatest(v_delay, p_retry_after_ms * (1 + 0.1 * random()));
    end if;
    run_at := p_now + make_interval(secs => least(v_delay, 315360000000) / 1000);
  end if;
end
$$;
comment on function jobforge.settle(text, integer, integer, integer, timestamptz, jobforge.definitions, bigint, timestamptz) is
  'The one decision: what becomes of a job whose attempt ended retryable, permanent, lost or canceled, and when it runs again.';

create or replace function jobforge.fail_jobs(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_classes text[], p_errors text[],
  p_retry_after_ms bigint[] default null, p_statuses text[] default null, p_exit_codes integer[] default null,
  p_stdout_tails text[] default null, p_stderr_tails text[] default null)
returns table (at integer, verdict text, status text, run_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_rows integer := cardinality(p_job_ids);
  v_done integer[] := '{}';
  v_row record;
  v_end record;
  v_secrets text[];
begin
  perform jobforge.require_columns(v_rows, coalesce(cardinality(p_tenant_ids), 0),
    coalesce(cardinality(p_fences), 0), coalesce(cardinality(p_classes), 0), coalesce(cardinality(p_errors), 0),
    cardinality(p_retry_after_ms), cardinality(p_statuses), cardinality(p_exit_codes),
    cardinality(p_stdout_tails), cardinality(p_stderr_tails));
  if exists (select from unnest(p_classes) as c where c is null or c not in ('retryable', 'permanent', 'canceled')) then
    perform jobforge.refuse('JF001', 'class_unknown', 'a class is retryable, permanent or canceled');
  elsif exists (select from unnest(p_retry_after_ms) as r where r < 0 or r > 31536000000) then
    perform jobforge.refuse('JF001', 'retry_after_out_of_range', 'p_retry_after_ms must be 0 to a year');
  elsif exists (select from unnest(p_statuses) as s where s not in ('failed', 'timeout', 'canceled')) then
    perform jobforge.refuse('JF001', 'attempt_status_unknown', 'an attempt ends failed, timeout or canceled');
  end if;

  if jobforge.lease_lives(p_lease_id, v_now) then
    for v_row in
      select r.*, j.failures, j.deaths, j.max_attempts, j.cancel_at, j.started_at, j.worker_no, j.type
      from (
        -- A job that stands twice ends once.
        select distinct on (u.tenant_id, u.id, u.fence) u.*
        from unnest(p_tenant_ids, p_job_ids, p_fences, p_classes, p_errors, p_retry_after_ms, p_statuses, p_exit_codes,
            p_stdout_tails, p_stderr_tails) with ordinality
          as u(tenant_id, id, fence, class, error, retry_after_ms, attempt, exit_code, stdout_tail, stderr_tail, at)
        order by u.tenant_id, u.id, u.fence, u.at) as r
      cross join lateral (
        select k.failures, k.deaths, k.max_attempts, k.cancel_at, k.started_at, k.worker_no, k.type from jobforge.jobs k
        where k.tenant_id = r.tenant_id and k.id = r.id and k.fence = r.fence and k.lease_id = p_lease_id
        for no key update) as j
      order by r.tenant_id, r.id
    loop
      v_secrets := jobforge.job_secrets(v_row.tenant_id, v_row.id);
      v_row.error := jobforge.redact_text(v_row.error, v_secrets);
      perform jobforge.note_attempt(v_row.tenant_id, v_row.id, v_row.fence,
        coalesce(v_row.attempt, case when v_row.class = 'canceled' then 'canceled' else 'failed' end), v_row.worker_no,
        v_row.started_at, v_now, nullif(v_row.class, 'canceled'), v_row.error, v_row.exit_code,
        jobforge.redact_text(v_row.stdout_tail, v_secrets), jobforge.redact_text(v_row.stderr_tail, v_secrets));
      v_end := jobforge.apply_end(v_row.tenant_id, v_row.id, v_row.class, v_row.error, v_row.retry_after_ms, v_now);
      v_done := v_done || v_row.at::integer;
      at := v_row.at; verdict := 'done'; status := v_end.status; run_at := v_end.run_at;
      return next;
    end loop;
  end if;
  if cardinality(v_done) < v_rows then
    return query select v.at, v.verdict, null::text, null::timestamptz
    from jobforge.verdicts(p_lease_id, p_tenant_ids, p_job_ids, p_fences, v_done, v_now) as v where v.verdict <> 'done';
  end if;
end
$$;
comment on function jobforge.fail_jobs(uuid, uuid[], uuid[], integer[], text[], text[], bigint[], text[], integer[], text[],
  text[]) is 'Ends attempts badly. Per row a verdict (done, already, stale, unknown), the job''s new status and its next run_at.';
grant execute on function jobforge.fail_jobs(uuid, uuid[], uuid[], integer[], text[], text[], bigint[], text[], integer[],
  text[], text[]) to jf_worker;

create or replace function jobforge.fail_job(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_class text default 'retryable',
  p_error text default '', p_retry_after_ms bigint default null, p_status text default null,
  p_exit_code integer default null, p_stdout_tail text default null, p_stderr_tail text default null)
returns table (verdict text, status text, run_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row record;
begin
  select * into v_row from jobforge.fail_jobs(p_lease_id, array[p_tenant_id], array[p_job_id], array[p_fence],
    array[p_class], array[p_error], array[p_retry_after_ms], array[p_status], array[p_exit_code], array[p_stdout_tail],
    array[p_stderr_tail]);
  perform jobforge.require_verdict(v_row.verdict, p_job_id);
  return query select v_row.verdict, v_row.status, v_row.run_at;
end
$$;
comment on function jobforge.fail_job(uuid, uuid, uuid, integer, text, text, bigint, text, integer, text, text) is
  'Ends one attempt badly; raises where the batch form answers stale or unknown.';
grant execute on function jobforge.fail_job(uuid, uuid, uuid, integer, text, text, bigint, text, integer, text, text) to jf_worker;

create or replace function jobforge.apply_end(
  p_tenant_id uuid, p_job_id uuid, p_outcome text, p_error text, p_retry_after_ms bigint, p_now timestamptz,
  out status text, out run_at timestamptz)
language plpgsql volatile
as $$
declare
  v_job jobforge.jobs;
  v_definition jobforge.definitions;
begin
  select j.* into v_job from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = p_job_id for no key update;
  select d.* into v_definition from jobforge.definitions d where d.key = v_job.type;
  -- Only here is an end counted: a death for a lost lease, a failure for a report. Which attempt it was, the claim said.
  v_job.failures := v_job.failures + (p_outcome in ('retryable', 'permanent'))::integer;
  v_job.deaths := v_job.deaths + (p_outcome = 'lost')::integer;
  select s.status, s.run_at into status, run_at from jobforge.settle(p_outcome, v_job.failures, v_job.deaths,
    v_job.max_attempts, v_job.cancel_at, v_definition, p_retry_after_ms, p_now) as s;
  if status = 'canceled' then
    perform jobforge.retire_by_key('canceled', v_job.lease_id, array[p_tenant_id], array[p_job_id], array[v_job.fence], null,
      left(p_error, 8192), p_now);
    return;
  end if;
  update jobforge.jobs j
  set status = apply_end.status, run_at = coalesce(apply_end.run_at, j.run_at), failures = v_job.failures,
    deaths = v_job.deaths, lease_id = null, ready = false, taken = false, error = left(p_error, 8192),
    finished_at = case when apply_end.status <> 'queued' then p_now end
  where j.tenant_id = p_tenant_id and j.id = p_job_id;
end
$$;
comment on function jobforge.apply_end(uuid, uuid, text, text, bigint, timestamptz) is
  'Counts an attempt''s bad end and does to the job what settle decided.';

create or replace function jobforge.note_attempt(
  p_tenant_id uuid, p_job_id uuid, p_number integer, p_status text, p_worker_no integer, p_started_at timestamptz,
  p_now timestamptz, p_class text, p_error text, p_exit_code integer, p_stdout_tail text, p_stderr_tail text)
returns void
language sql volatile
as $$
  insert into jobforge.attempts (tenant_id, job_id, number, status, worker_no, started_at, finished_at, error_class, error,
    exit_code, stdout_tail, stderr_tail)
  values (p_tenant_id, p_job_id, p_number, p_status, p_worker_no, p_started_at, p_now, p_class, left(p_error, 8192),
    p_exit_code, right(p_stdout_tail, 65536), right(p_stderr_tail, 65536))
  on conflict do nothing
$$;
comment on function jobforge.note_attempt(uuid, uuid, integer, text, integer, timestamptz, timestamptz, text, text, integer,
  text, text) is 'Keeps what is known of an attempt that did not end its job well.';
