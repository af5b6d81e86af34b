-- owner: jf_fn
-- What people do to a job: cancel, retry, reschedule. Under the tenant, subject to row-level security.

create or replace function jobforge.cancel_job(p_tenant_id uuid, p_job_id uuid, p_reason text default null)
returns table (id uuid, status text, cancel_requested boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_job jobforge.jobs;
begin
  perform jobforge.require_tenant(p_tenant_id);
  v_job := jobforge.hold_own_job(p_tenant_id, p_job_id, 'cancel');
  status := jobforge.cancel_held(v_job, p_reason, v_now);
  id := p_job_id;
  cancel_requested := status = 'running';
  perform jobforge.audit(p_tenant_id, case when cancel_requested then 'cancel_requested' else 'cancel' end, 'job', p_job_id::text,
    jsonb_build_object('reason', left(p_reason, 1000)), v_now);
  return next;
end
$$;
comment on function jobforge.cancel_job(uuid, uuid, text) is
  'Cancels a waiting job or dead letter at once; asks a running one to stop, once more if called again.';
grant execute on function jobforge.cancel_job(uuid, uuid, text) to jf_tenant, jf_operator;

create or replace function jobforge.retry_job(p_tenant_id uuid, p_job_id uuid)
returns table (id uuid, status text, run_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz;
  v_job jobforge.jobs;
  v_problem text;
begin
  perform jobforge.require_tenant(p_tenant_id);
  v_job := jobforge.hold_own_job(p_tenant_id, p_job_id, 'retry');
  if v_job.status not in ('queued', 'failed', 'dead') then
    perform jobforge.refuse('JF008', 'job_' || v_job.status, format('job %s is %s: there is nothing to retry', p_job_id, v_job.status));
  end if;
  v_now := jobforge.clock();
  v_problem := coalesce(jobforge.revival_problem(v_job, jobforge.room_to_wait(p_tenant_id, v_now)),
    jobforge.revive(v_job, null, null, v_now));
  if v_problem is not null then
    perform jobforge.refuse(split_part(v_problem, ':', 1), split_part(v_problem, ':', 2),
      format('retry of job %s refused: %s', p_job_id, replace(split_part(v_problem, ':', 2), '_', ' ')));
  end if;
  perform pg_notify('jobforge_wake', '');
  perform jobforge.audit(p_tenant_id, 'retry', 'job', p_job_id::text, jsonb_build_object('was', v_job.status), v_now);
  return query select p_job_id, 'queued', v_now;
end
$$;
comment on function jobforge.retry_job(uuid, uuid) is
  'Runs a waiting job or dead letter now: a dead letter starts with no failures, its attempt numbers go on.';
grant execute on function jobforge.retry_job(uuid, uuid) to jf_tenant, jf_operator;

create or replace function jobforge.reschedule_job(
  p_tenant_id uuid, p_job_id uuid, p_run_at timestamptz default null, p_max_attempts integer default null)
returns table (id uuid, status text, run_at timestamptz, max_attempts integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_job jobforge.jobs;
begin
  perform jobforge.require_tenant(p_tenant_id);
  if p_run_at is null and p_max_attempts is null then
    perform jobforge.refuse('JF001', 'nothing_to_change', 'give p_run_at or p_max_attempts');
  elsif p_run_at not between v_now - interval '10 years' and v_now + interval '10 years' then
    perform jobforge.refuse('JF001', 'run_at_out_of_range', 'p_run_at is more than ten years away');
  elsif p_max_attempts not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'max_attempts_out_of_range', 'p_max_attempts must be 1 to 1000');
  end if;
  v_job := jobforge.hold_own_job(p_tenant_id, p_job_id, 'reschedule');
  if v_job.status <> 'queued' then
    perform jobforge.refuse('JF008', 'job_' || v_job.status, format('job %s is %s: only waiting jobs are rescheduled', p_job_id, v_job.status));
  end if;
  -- Again: whoever had the job locked may have kept it for long, and no run_at is written that is in the past (see "Sweep" in
  -- sql/README.md).
  v_now := jobforge.clock();
  return query
  update jobforge.jobs j
  -- Of a null and a time greatest() tells the time.
  set run_at = case when p_run_at is null then j.run_at else greatest(p_run_at, v_now) end,
    ready = case when p_run_at is null then j.ready else p_run_at <= v_now end,
    max_attempts = coalesce(p_max_attempts, j.max_attempts)
  where j.tenant_id = p_tenant_id and j.id = p_job_id
  returning j.id, j.status, j.run_at, j.max_attempts::integer;
  if p_run_at < v_now + interval '2 seconds' then
    perform pg_notify('jobforge_wake', '');
  end if;
  perform jobforge.audit(p_tenant_id, 'reschedule', 'job', p_job_id::text,
    jsonb_build_object('run_at', p_run_at, 'max_attempts', p_max_attempts), v_now);
end
$$;
comment on function jobforge.reschedule_job(uuid, uuid, timestamptz, integer) is
  'Moves a waiting job in time (a past time means now) or changes how often it may fail.';
grant execute on function jobforge.reschedule_job(uuid, uuid, timestamptz, integer) to jf_tenant, jf_operator;

create or replace function jobforge.cancel_held(p_job jobforge.jobs, p_reason text, p_now timestamptz) returns text
language plpgsql volatile
as $$
begin
  if p_job.status = 'running' then
    update jobforge.jobs j set cancel_at = coalesce(j.cancel_at, p_now), error = coalesce(left(p_reason, 1000), j.error)
    where j.tenant_id = p_job.tenant_id and j.id = p_job.id;
    perform pg_notify('jobforge_cancel', p_job.lease_id::text);
    return 'running';
  end if;
  perform jobforge.retire_by_key('canceled', null, array[p_job.tenant_id], array[p_job.id], array[p_job.fence], null,
    left(coalesce(p_reason, p_job.error), 8192), p_now);
  return 'canceled';
end
$$;
comment on function jobforge.cancel_held(jobforge.jobs, text, timestamptz) is
  'Ends a locked job that does not run, asks for the end of one that does; tells its status.';

create or replace function jobforge.hold_own_job(p_tenant_id uuid, p_job_id uuid, p_operation text) returns jobforge.jobs
language plpgsql volatile
as $$
declare
  v_job jobforge.jobs;
  v_over text;
begin
  select j.* into v_job from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = p_job_id for no key update;
  if v_job.id is not null then
    return v_job;
  end if;
  select h.status into v_over from jobforge.job_history h
  where h.tenant_id = p_tenant_id and h.id = p_job_id order by h.finished_at desc limit 1;
  if v_over is null then
    perform jobforge.refuse('JF007', 'job_unknown', format('%s: job %s is not known', p_operation, p_job_id));
  end if;
  perform jobforge.refuse('JF008', 'job_' || v_over, format('%s: job %s is over (%s)', p_operation, p_job_id, v_over));
end
$$;
comment on function jobforge.hold_own_job(uuid, uuid, text) is
  'Locks a live job of the tenant; one that is over or unknown is refused.';
