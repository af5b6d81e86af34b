-- owner: jf_sys
-- How the program that a running attempt started is called and how it ended; fenced like every report.

create or replace function jobforge.report_exit(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_pid integer, p_exit_code integer default null,
  p_signal integer default null, p_stdout_tail text default null, p_stderr_tail text default null)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set lock_timeout = '100ms'
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_secrets text[];
begin
  if p_pid <= 0 then
    perform jobforge.refuse('JF001', 'pid_out_of_range', 'report_exit: p_pid must be more than 0');
  elsif p_exit_code not between 0 and 255 then
    perform jobforge.refuse('JF001', 'exit_code_out_of_range', 'report_exit: p_exit_code must be 0 to 255');
  elsif p_signal not between 1 and 64 then
    perform jobforge.refuse('JF001', 'signal_out_of_range', 'report_exit: p_signal must be 1 to 64');
  elsif p_exit_code is not null and p_signal is not null then
    perform jobforge.refuse('JF001', 'code_and_signal', 'report_exit: a program ends with an exit code or by a signal, not both');
  end if;
  perform jobforge.hold_job(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  v_secrets := jobforge.job_secrets(p_tenant_id, p_job_id);
  insert into jobforge.attempt_exits as e (tenant_id, job_id, number, pid, exit_code, signal, at, stdout_tail, stderr_tail)
  values (p_tenant_id, p_job_id, p_fence, p_pid, p_exit_code, p_signal, v_now,
    right(jobforge.redact_text(p_stdout_tail, v_secrets), 65536), right(jobforge.redact_text(p_stderr_tail, v_secrets), 65536))
  on conflict (tenant_id, job_id, number) do update
  set pid = coalesce(excluded.pid, e.pid), exit_code = excluded.exit_code, signal = excluded.signal, at = excluded.at,
    stdout_tail = excluded.stdout_tail, stderr_tail = excluded.stderr_tail;
  return true;
end
$$;
comment on function jobforge.report_exit(uuid, uuid, uuid, integer, integer, integer, integer, text, text) is
  'Notes the process that a running attempt started, and at its end its exit code or signal and the ends of what it printed; a '
  'stale lease or fence is refused. Told twice, the later counts; a pid that is not told again stays.';
grant execute on function jobforge.report_exit(uuid, uuid, uuid, integer, integer, integer, integer, text, text) to jf_worker;
