-- owner: jf_sys
-- What reports need around their one statement: what became of each row, and what goes with a finished job.

create or replace function jobforge.retire_notes(p_tenant_id uuid, p_job_id uuid, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_retention text;
begin
  select h.retention into v_retention from jobforge.job_history h
  where h.tenant_id = p_tenant_id and h.id = p_job_id and h.finished_at = p_now;
  with gone as (
    delete from jobforge.attempts a where a.tenant_id = p_tenant_id and a.job_id = p_job_id returning a.*
  )
  insert into jobforge.attempt_history select g.*, v_retention, p_now from gone g;
  with gone as (
    delete from jobforge.job_logs l where l.tenant_id = p_tenant_id and l.job_id = p_job_id returning l.*
  )
  insert into jobforge.log_history select g.*, v_retention, p_now from gone g;
  with gone as (
    delete from jobforge.attempt_exits e where e.tenant_id = p_tenant_id and e.job_id = p_job_id returning e.*
  )
  insert into jobforge.exit_history select g.*, v_retention, p_now from gone g;
  delete from jobforge.job_progress p where p.tenant_id = p_tenant_id and p.job_id = p_job_id;
  update jobforge.job_artifacts h set retention = v_retention, job_finished_at = p_now
  where h.tenant_id = p_tenant_id and h.job_id = p_job_id;
end
$$;
comment on function jobforge.retire_notes(uuid, uuid, timestamptz) is
  'Moves a finished job''s attempts, logs and programs'' ends after it, to be dropped with it, and says until when its objects are held.';
grant execute on function jobforge.retire_notes(uuid, uuid, timestamptz) to jf_fn;

create or replace function jobforge.verdicts(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_done integer[], p_now timestamptz)
returns table (at integer, verdict text)
language sql stable
as $$
  select r.at::integer,
    case
      when r.at = any (p_done) then 'done'
      -- To a worker bound to one tenant another tenant's job is not there.
      when r.tenant_id <> b.bound then 'unknown'
      when j.fence = r.fence and j.lease_id = p_lease_id and l.expires_at > p_now then 'invalid'
      when exists (select from jobforge.job_history h where h.tenant_id = r.tenant_id and h.id = r.id and h.fence = r.fence
                   and h.finished_at > p_now - interval '2 days'
                   -- A job canceled after its worker was lost keeps that attempt's number, but no report of it.
                   and (h.status = 'succeeded' or exists (
                     select from jobforge.attempt_history a where a.tenant_id = h.tenant_id and a.job_id = h.id
                     and a.number = h.fence and a.status <> 'lost')))
        or exists (select from jobforge.attempts a where a.tenant_id = r.tenant_id and a.job_id = r.id
                   and a.number = r.fence and a.status <> 'lost') then 'already'
      when j.id is not null then 'stale'
      when exists (select from jobforge.job_history h where h.tenant_id = r.tenant_id and h.id = r.id) then 'stale'
      else 'unknown'
    end
  from unnest(p_tenant_ids, p_job_ids, p_fences) with ordinality as r(tenant_id, id, fence, at)
  cross join (select jobforge.login_tenant()) as b(bound)
  left join lateral (select k.id, k.fence, k.lease_id from jobforge.jobs k
                     where k.tenant_id = r.tenant_id and k.id = r.id offset 0) as j on true
  left join jobforge.leases l on l.id = p_lease_id and (b.bound is null or l.tenant_id = b.bound)
$$;
comment on function jobforge.verdicts(uuid, uuid[], uuid[], integer[], integer[], timestamptz) is
  'What became of each row of a report: done, already, stale, unknown, invalid.';

create or replace function jobforge.require_verdict(p_verdict text, p_job_id uuid) returns text
language plpgsql immutable
as $$
begin
  if p_verdict = 'stale' then
    perform jobforge.refuse('JF006', 'fence_stale', format('the report on job %s carries a stale lease or fence', p_job_id));
  elsif p_verdict = 'unknown' then
    perform jobforge.refuse('JF007', 'job_unknown', format('job %s is not known', p_job_id));
  elsif p_verdict = 'invalid' then
    perform jobforge.refuse('JF003', 'result_too_large', 'a result holds at most 1 MiB');
  end if;
  return p_verdict;
end
$$;
comment on function jobforge.require_verdict(text, uuid) is 'Raises for a single report what the batch forms answer as a verdict.';
