-- owner: jf_owner
-- A new job is asked only what a new job can get wrong. A statement pays for each operator of a rule before its first row, and
-- who enqueues one job has a statement for it: this rule has half of those that the rule for jobs at any time needs.

drop policy sound on jobforge.jobs;
create policy sound on jobforge.jobs as restrictive for update to public with check (
  failures >= 0 and deaths >= 0 and failures + deaths <= fence
  and case when keyed then concurrency_key is not null else concurrency_key is null end
  and (not taken or (lease_id is not null and not ready))
  and case
    when lease_id is not null then status = 'running' and started_at is not null and fence > 0 and finished_at is null
    when finished_at is not null then status in ('failed', 'dead') and not ready
    else status = 'queued' or (status = 'blocked' and not ready)
  end);
comment on policy sound on jobforge.jobs is
  'What a job may become: its counts fit its fence, keyed says whether it has a key, and status, lease, end and readiness agree.';
create policy sound_new on jobforge.jobs as restrictive for insert to public with check (
  lease_id is null and finished_at is null and not taken and fence = 0 and failures = 0 and deaths = 0
  and case when keyed then concurrency_key is not null else concurrency_key is null end
  and (status = 'queued' or (status = 'blocked' and not ready)));
comment on policy sound_new on jobforge.jobs is
  'What a job begins as: nobody had it yet, keyed says whether it has a key, and it waits, ready only if for nothing but its turn.';

-- Whether who writes is bound to another tenant: as for who reads, without a node of the plan that writing has no use for.
alter policy login_bound on jobforge.jobs with check (exists (
  select from jobforge.logins l
  where l.role_name = session_user::text
    and (l.tenant_id is null or l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)));

-- Each of their entries ends with the job's id: there is nothing alike to be kept once.
alter index jobforge.jobs_turn set (deduplicate_items = off);
alter index jobforge.jobs_apart set (deduplicate_items = off);
alter index jobforge.jobs_keyed set (deduplicate_items = off);
alter index jobforge.jobs_future set (deduplicate_items = off);
