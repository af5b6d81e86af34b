-- owner: jf_owner
-- Operations on many jobs as records: who did what to which jobs, why, and what each was before.

create table jobforge.bulk_operations (
  tenant_id      uuid        not null,
  id             uuid        not null,
  kind           text        not null,
  status         text        not null default 'running',
  actor          text        not null,
  reason         text        not null default '',
  filter         jsonb       not null,
  patch          jsonb,
  max_attempts   smallint,
  dry_run        boolean     not null default false,
  -- How many jobs matched at the start; capped where the count stopped at its bound.
  matched        bigint      not null default 0,
  matched_capped boolean     not null default false,
  done           bigint      not null default 0,
  skipped        bigint      not null default 0,
  undone         bigint      not null default 0,
  kept           bigint      not null default 0,
  -- The last job looked at, in the order of the walk.
  position_at    timestamptz not null default '-infinity',
  position_id    uuid        not null default '00000000-0000-0000-0000-000000000000',
  started_at     timestamptz not null,
  finished_at    timestamptz,
  undone_at      timestamptz,
  constraint bulk_operations_pk primary key (tenant_id, id),
  constraint bulk_operations_kind_known check (kind in ('redrive', 'cancel')),
  constraint bulk_operations_status_known check (status in ('running', 'finished', 'undoing', 'undone')),
  constraint bulk_operations_reason_length check (length(reason) <= 500),
  constraint bulk_operations_redrive_only check (kind = 'redrive' or (patch is null and max_attempts is null)),
  constraint bulk_operations_ended check ((status = 'running') = (finished_at is null) and (status = 'undone') = (undone_at is not null))
);
create index bulk_operations_age on jobforge.bulk_operations (started_at);

-- What became of each job. `before` is what an undo puts back; it has the payload where that was edited.
create table jobforge.bulk_results (
  tenant_id    uuid        not null,
  operation_id uuid        not null,
  job_id       uuid        not null,
  at           timestamptz not null,
  verdict      text        not null,
  error_code   text,
  error_reason text,
  before       jsonb,
  constraint bulk_results_pk primary key (tenant_id, operation_id, job_id),
  constraint bulk_results_verdict_known check (
    verdict in ('redriven', 'canceled', 'cancel_requested', 'skipped', 'undone', 'kept'))
);
create index bulk_results_undoable on jobforge.bulk_results (tenant_id, operation_id, job_id) where verdict = 'redriven';
create index bulk_results_job on jobforge.bulk_results (tenant_id, job_id, operation_id);

do $$
declare
  v_table regclass;
begin
  foreach v_table in array array['jobforge.bulk_operations', 'jobforge.bulk_results']::regclass[] loop
    execute format('alter table %s enable row level security, force row level security', v_table);
    execute format($policy$create policy tenant_rows on %s for all to jf_fn
      using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
      with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))$policy$, v_table);
    execute format($policy$create policy tenant_reads on %s for select to jf_tenant, jf_operator
      using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))$policy$, v_table);
    execute format($policy$create policy login_bound on %s as restrictive for all to jf_fn, jf_tenant, jf_operator
      using ((select exists (select from jobforge.logins l where l.role_name = session_user::text
        and (l.tenant_id is null or l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid))))$policy$, v_table);
    execute format('create policy sys_all on %s for all to jf_sys using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %s to jf_fn, jf_sys', v_table);
  end loop;
end
$$;

-- Every column but what may hold parts of payloads, which only functions hand out.
grant select (tenant_id, id, kind, status, actor, reason, filter, max_attempts, dry_run, matched, matched_capped, done, skipped,
  undone, kept, started_at, finished_at, undone_at) on jobforge.bulk_operations to jf_tenant, jf_operator;
grant select (tenant_id, operation_id, job_id, at, verdict, error_code, error_reason)
  on jobforge.bulk_results to jf_tenant, jf_operator;

-- Which jobs an operation is about; what is null is not asked.
create type jobforge.job_filter as (
  statuses text[], type text, queue text, fingerprint text, tag text, created_after timestamptz, created_before timestamptz,
  finished_after timestamptz, finished_before timestamptz
);
grant usage on type jobforge.job_filter to jf_fn;

-- An operation as its functions tell it.
create type jobforge.bulk_operation as (
  id uuid, kind text, status text, actor text, reason text, filter jsonb, patch jsonb, max_attempts integer, dry_run boolean,
  matched bigint, matched_capped boolean, done bigint, skipped bigint, undone bigint, kept bigint, started_at timestamptz,
  finished_at timestamptz, undone_at timestamptz
);
grant usage on type jobforge.bulk_operation to jf_fn, jf_tenant, jf_operator;
