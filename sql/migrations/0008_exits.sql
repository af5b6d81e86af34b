-- owner: jf_owner
-- How the programs that attempts ran have ended: beside the attempts, because those of good jobs have no row of their own.

create table jobforge.attempt_exits (
  tenant_id   uuid        not null,
  job_id      uuid        not null,
  number      integer     not null,
  pid         integer,
  exit_code   integer,
  signal      integer,
  at          timestamptz not null,
  stdout_tail text,
  stderr_tail text,
  constraint attempt_exits_pk primary key (tenant_id, job_id, number),
  constraint attempt_exits_pid_range check (pid > 0),
  constraint attempt_exits_code_range check (exit_code between 0 and 255),
  constraint attempt_exits_signal_range check (signal between 1 and 64),
  constraint attempt_exits_code_or_signal check (exit_code is null or signal is null)
);

create table jobforge.exit_history (
  like jobforge.attempt_exits including constraints,
  retention text not null,
  job_finished_at timestamptz not null,
  constraint exit_history_pk primary key (tenant_id, job_id, number, job_finished_at, retention)
) partition by list (retention);

do $$
declare
  v_class text;
  v_table regclass;
begin
  foreach v_class in array array['day', 'week', 'month', 'year'] loop
    execute format('create table jobforge.%I partition of jobforge.exit_history for values in (%L) partition by range (job_finished_at)',
      'exit_history_' || v_class, v_class);
    execute format('create table jobforge.%I partition of jobforge.%I default',
      'exit_history_' || v_class || '_default', 'exit_history_' || v_class);
  end loop;

  for v_table in
    select c.oid::regclass from pg_catalog.pg_class c
    where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
      and (c.relname = 'attempt_exits' or c.relname like 'exit\_history%')
  loop
    execute format('alter table %s enable row level security, force row level security', v_table);
  end loop;

  foreach v_table in array array['jobforge.attempt_exits', 'jobforge.exit_history']::regclass[] loop
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
    execute format('grant select on %s to jf_tenant, jf_operator', v_table);
  end loop;
end
$$;
