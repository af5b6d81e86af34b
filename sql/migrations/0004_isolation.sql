-- owner: jf_owner
-- Row-level security on every table with tenants' data. Unset, empty or malformed settings mean no row.

do $$
declare
  v_table regclass;
begin
  for v_table in
    select c.oid::regclass from pg_catalog.pg_class c
    where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
      and exists (select from pg_catalog.pg_attribute a
                  where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)
      and not exists (select from pg_catalog.pg_policy p where p.polrelid = c.oid)
  loop
    execute format('alter table %s enable row level security, force row level security', v_table);
  end loop;

  foreach v_table in array array['jobforge.jobs', 'jobforge.job_history', 'jobforge.attempts', 'jobforge.job_logs',
      'jobforge.job_progress', 'jobforge.attempt_history', 'jobforge.log_history', 'jobforge.idempotency_keys',
      'jobforge.audit_log']::regclass[] loop
    execute format($policy$create policy tenant_rows on %s for all to jf_fn
      using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
      with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))$policy$, v_table);
    execute format($policy$create policy tenant_reads on %s for select to jf_tenant, jf_operator
      using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))$policy$, v_table);
    -- A login bound to one tenant stays there whatever it puts into the setting; an unknown login sees nothing.
    execute format($policy$create policy login_bound on %s as restrictive for all to jf_fn, jf_tenant, jf_operator
      using ((select exists (select from jobforge.logins l where l.role_name = session_user::text
        and (l.tenant_id is null or l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid))))$policy$, v_table);
    execute format('create policy sys_all on %s for all to jf_sys using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %s to jf_fn, jf_sys', v_table);
  end loop;
end
$$;

create policy own_login on jobforge.logins for select to jf_tenant, jf_operator using (role_name = session_user::text);
grant select on jobforge.logins to jf_tenant, jf_operator;

-- Every column but raw payloads and results, which only functions hand out.
grant select (tenant_id, id, run_at, created_at, started_at, finished_at, cancel_at, fence, failures, worker_no, deaths,
  max_attempts, priority, status, retention, queue, type, dedupe_key, concurrency_key, correlation_id, traceparent, tags, source,
  source_ref, created_by, parent_id, error) on jobforge.jobs to jf_tenant, jf_operator;
grant select (tenant_id, id, run_at, created_at, started_at, finished_at, fence, failures, worker_no, deaths,
  max_attempts, priority, status, retention, queue, type, dedupe_key, concurrency_key, correlation_id, traceparent, tags, source,
  source_ref, created_by, parent_id, error) on jobforge.job_history to jf_tenant, jf_operator;
grant select on jobforge.attempts, jobforge.attempt_history, jobforge.job_logs, jobforge.log_history,
  jobforge.job_progress to jf_tenant, jf_operator;
grant select on jobforge.audit_log to jf_operator;

-- The claim's planner settings are part of its functions; these tables change by the thousand a second.
alter table jobforge.jobs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1,
  autovacuum_analyze_scale_factor = 0.05);
alter table jobforge.lease_claims set (autovacuum_vacuum_scale_factor = 0.05);
alter table jobforge.leases set (autovacuum_vacuum_scale_factor = 0.05);

-- The rows of the hot tables are kept sound by policies instead of CHECKs. Postgres reads the text of a CHECK (and of a
-- generated column) anew for every statement, which was a fifth of what enqueuing one job costs; a policy is compiled
-- with the statement and kept with its plan. Row security is forced, so whoever may write here is held to them: only a
-- superuser is not.
create policy sound on jobforge.jobs as restrictive to public with check (
  failures >= 0 and deaths >= 0 and failures + deaths <= fence
  and keyed = (concurrency_key is not null)
  and case
    when lease_id is not null then status = 'running' and started_at is not null and fence > 0 and finished_at is null and not ready
    when finished_at is not null then status in ('failed', 'dead') and not ready
    else status = 'queued' or (status = 'blocked' and not ready)
  end);
comment on policy sound on jobforge.jobs is
  'What a job may be: its counts fit its fence, keyed says whether it has a key, and status, lease, end and readiness agree.';

create policy sound on jobforge.job_history as restrictive to public with check (status in ('succeeded', 'canceled'));
comment on policy sound on jobforge.job_history is 'History holds what ended well or was canceled; dead letters stay with the living.';

create policy sound on jobforge.leases as restrictive to public with check (
  window_size between 1 and 100000 and ttl_seconds between 1 and 3600 and (not solo or window_size = 1));
comment on policy sound on jobforge.leases is 'A lease has a window and a life within bounds; a solo one has a window of one.';

create policy sound on jobforge.lease_claims as restrictive to public with check (cardinality(tenant_ids) = cardinality(job_ids));
comment on policy sound on jobforge.lease_claims is 'Each job that a claim names has its tenant beside it.';
