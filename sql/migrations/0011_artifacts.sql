-- owner: jf_owner
-- Payloads and results too large for a row: which objects of the artifact store there may be, and which job holds which.

-- Every object that may be in the store: its row is there before the object, and leaves after it.
create table jobforge.artifacts (
  tenant_id    uuid        not null,
  ref          text        not null,
  -- When somebody last said that it is about to be written.
  announced_at timestamptz not null,
  -- When to look whether anybody holds it; null while somebody does.
  collect_at   timestamptz,
  -- Since when a collector is deleting the object.
  doomed_at    timestamptz,
  constraint artifacts_pk primary key (tenant_id, ref),
  constraint artifacts_ref_form check (ref ~ '^sha256:[0-9a-f]{64}$'),
  constraint artifacts_doomed_is_looked_at check (doomed_at is null or collect_at is not null)
) with (fillfactor = 70);
create index artifacts_due on jobforge.artifacts (collect_at) where collect_at is not null;

-- Which job holds which object. The row stays when the job is over, and leaves with the job: a partition that is dropped
-- tells nobody which objects went with it.
create table jobforge.job_artifacts (
  tenant_id       uuid        not null,
  job_id          uuid        not null,
  kind            text        not null,
  ref             text        not null,
  bytes           bigint      not null,
  created_at      timestamptz not null,
  retention       text,
  job_finished_at timestamptz,
  constraint job_artifacts_pk primary key (tenant_id, job_id, kind),
  constraint job_artifacts_kind_known check (kind in ('payload', 'result')),
  constraint job_artifacts_ref_form check (ref ~ '^sha256:[0-9a-f]{64}$'),
  constraint job_artifacts_bytes_range check (bytes between 1 and 1073741824),
  constraint job_artifacts_end_whole check ((retention is null) = (job_finished_at is null))
);
create index job_artifacts_holders on jobforge.job_artifacts (tenant_id, ref);
create index job_artifacts_live on jobforge.job_artifacts (tenant_id, job_id) where job_finished_at is null;
create index job_artifacts_over on jobforge.job_artifacts (retention, job_finished_at) where job_finished_at is not null;

do $$
declare
  v_table regclass;
begin
  foreach v_table in array array['jobforge.artifacts', 'jobforge.job_artifacts']::regclass[] loop
    execute format('alter table %s enable row level security, force row level security', v_table);
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
    execute format('grant select on %s to jf_tenant, jf_operator', v_table);
  end loop;
end
$$;
