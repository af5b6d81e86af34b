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
  v_fences integer[] := p_fences;
  v_done integer[] := '{}';
begin
  perform jobforge.require_columns(v_rows, coalesce(cardinality(p_tenant_ids), 0),
    coalesce(cardinality(p_fences), 0), cardinality(p_results), cardinality(p_locators));
  if jobforge.lease_lives(p_lease_id, v_now) then
    if p_results is not null then
      -- A result is found by its place in the column.
      if array_ndims(p_results) > 1 or array_lower(p_results, 1) <> 1 then
        perform jobforge.refuse('JF001', 'columns_differ', 'the results are no plain list');
      end if;
      -- No job has a null fence: a row whose result is too large is met by none.
      v_fences := array(select case when pg_column_size(r.result) > 1048576 then null else r.fence end
        from unnest(p_fences, p_results) as r(fence, result));
    end if;
    if p_locators is not null then
      v_done := jobforge.retire_at(p_lease_id, p_tenant_ids, p_job_ids, v_fences, p_results, p_locators, v_now);
    end if;
    -- A row that moved since its claim is looked up by its key before it is called stale.
    if cardinality(v_done) < v_rows then
      v_done := v_done || jobforge.retire_by_key('succeeded', p_lease_id, p_tenant_ids, p_job_ids, v_fences, p_results, null, v_now);
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

create or replace function jobforge.rehearse_complete() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- As complete_jobs has them: what is planned here is what it goes by.
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
  perform jobforge.retire_at(null, '{}', '{}', '{}', null, '{}', jobforge.clock());
end
$$;
comment on function jobforge.rehearse_complete() is
  'Goes the way of a completion with no job at all: what a session compiles and plans once is done before the first report.';
grant execute on function jobforge.rehearse_complete() to jf_worker;

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
