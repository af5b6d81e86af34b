-- owner: jf_sys
-- Complete: jobs leave the live table for the history, a whole batch in one statement.

create or replace function jobforge.complete_jobs(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_results jsonb[] default null,
  p_locators tid[] default null)
returns table (at integer, verdict text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_rows integer := cardinality(p_job_ids);
  v_done integer[];
begin
  perform jobforge.require_columns(v_rows, cardinality(p_tenant_ids), cardinality(p_fences), cardinality(p_results),
    cardinality(p_locators));
  if jobforge.lease_lives(p_lease_id, v_now) then
    v_done := jobforge.retire('succeeded', p_lease_id, p_tenant_ids, p_job_ids, p_fences, p_results, null,
      coalesce(p_locators, jobforge.locate(p_lease_id, p_tenant_ids, p_job_ids)), v_now);
    -- A row that moved since its claim is looked up by its key before it is called stale.
    if p_locators is not null and cardinality(v_done) < v_rows then
      v_done := v_done || jobforge.retire('succeeded', p_lease_id, p_tenant_ids, p_job_ids, p_fences, p_results, null,
        jobforge.locate(p_lease_id, p_tenant_ids, p_job_ids), v_now);
    end if;
  end if;
  if cardinality(v_done) = v_rows then
    return query select n, 'done' from generate_series(1, v_rows) as n;
  else
    return query select * from jobforge.verdicts(p_lease_id, p_tenant_ids, p_job_ids, p_fences, v_done, v_now);
  end if;
end
$$;
comment on function jobforge.complete_jobs(uuid, uuid[], uuid[], integer[], jsonb[], tid[]) is
  'Ends jobs well. A verdict per row: done, already (the same report came before), stale, unknown, or invalid (result over 1 MiB).';
grant execute on function jobforge.complete_jobs(uuid, uuid[], uuid[], integer[], jsonb[], tid[]) to jf_worker;

create or replace function jobforge.complete_job(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_result jsonb default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_verdict text;
begin
  if octet_length(p_result::text) > 1048576 then
    perform jobforge.refuse('JF003', 'result_too_large', 'a result holds at most 1 MiB');
  end if;
  select c.verdict into v_verdict from jobforge.complete_jobs(p_lease_id, array[p_tenant_id], array[p_job_id],
    array[p_fence], array[p_result]) as c;
  return jobforge.require_verdict(v_verdict, p_job_id);
end
$$;
comment on function jobforge.complete_job(uuid, uuid, uuid, integer, jsonb) is
  'Ends one job well; raises where the batch form answers stale, unknown or invalid.';
grant execute on function jobforge.complete_job(uuid, uuid, uuid, integer, jsonb) to jf_worker;

create or replace function jobforge.retire(
  p_status text, p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_results jsonb[],
  p_error text, p_locators tid[], p_now timestamptz)
returns integer[]
language plpgsql volatile
as $$
declare
  v_done integer[];
  v_noted integer[];
begin
  with gone as (
    delete from jobforge.jobs j
    using unnest(p_locators, p_tenant_ids, p_job_ids, p_fences, p_results) with ordinality
      as r(locator, tenant_id, id, fence, result, at)
    where j.ctid = r.locator and j.tenant_id = r.tenant_id and j.id = r.id and j.fence = r.fence
      and j.lease_id is not distinct from p_lease_id and (r.result is null or pg_column_size(r.result) <= 1048576)
    returning j.*, r.result, r.at
  ), kept as (
    insert into jobforge.job_history (tenant_id, id, run_at, created_at, started_at, finished_at, fence, failures, worker_no,
      deaths, max_attempts, priority, status, retention, queue, type, payload, result, dedupe_key, correlation_id,
      traceparent, tags, source, source_ref, created_by, parent_id, error, concurrency_key)
    select g.tenant_id, g.id, g.run_at, g.created_at, g.started_at, p_now, g.fence, g.failures, g.worker_no, g.deaths,
      g.max_attempts, g.priority, p_status, g.retention, g.queue, g.type, g.payload, g.result, g.dedupe_key,
      g.correlation_id, g.traceparent, g.tags, g.source, g.source_ref, g.created_by, g.parent_id, p_error,
      g.concurrency_key
    from gone g
  )
  select array_agg(g.at::integer), array_agg(g.at::integer) filter (where g.fence > 1 or g.noted or p_status = 'canceled')
  into v_done, v_noted from gone g;
  if v_noted is not null then
    perform jobforge.retire_notes(p_tenant_ids[i], p_job_ids[i], p_now) from unnest(v_noted) as i;
  end if;
  return coalesce(v_done, '{}');
end
$$;
comment on function jobforge.retire(text, uuid, uuid[], uuid[], integer[], jsonb[], text, tid[], timestamptz) is
  'Moves the jobs that are still as reported (place, id, fence, lease) into the history; tells which rows it moved.';
grant execute on function jobforge.retire(text, uuid, uuid[], uuid[], integer[], jsonb[], text, tid[], timestamptz) to jf_fn;

create or replace function jobforge.lease_lives(p_lease_id uuid, p_now timestamptz) returns boolean
language plpgsql volatile
as $$
declare
  v_bound uuid := jobforge.login_tenant();
  v_lives boolean;
begin
  -- KEY SHARE: the reaper cannot take the lease away in the middle of a report, and the beat is not stopped by it.
  select l.expires_at > p_now and (v_bound is null or l.tenant_id = v_bound) into v_lives
  from jobforge.leases l where l.id = p_lease_id for key share;
  return coalesce(v_lives, false);
end
$$;
comment on function jobforge.lease_lives(uuid, timestamptz) is
  'Whether the lease is alive; if so it stays so for the reaper until this transaction ends.';

create or replace function jobforge.locate(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[]) returns tid[]
language sql volatile
as $$
  -- Locked, in key order: a row that somebody is changing would move once more before its place is used.
  select array_agg(w.ctid order by r.at)
  from (select u.tenant_id, u.id, u.at from unnest(p_tenant_ids, p_job_ids) with ordinality as u(tenant_id, id, at)
        order by u.tenant_id, u.id) as r
  left join lateral (
    select j.ctid from jobforge.jobs j
    where j.tenant_id = r.tenant_id and j.id = r.id and j.lease_id is not distinct from p_lease_id for update) as w on true
$$;
comment on function jobforge.locate(uuid, uuid[], uuid[]) is
  'Where the rows of these jobs are, by their key, as far as this lease holds them; they stay there until the transaction ends.';
grant execute on function jobforge.locate(uuid, uuid[], uuid[]) to jf_fn;
