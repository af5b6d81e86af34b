-- owner: jf_owner
-- The rows of the hot tables are kept sound by policies instead of CHECKs. Postgres reads the text of a CHECK (and of a
-- generated column) anew for every statement, which was a third of what enqueuing one job costs; a policy is compiled
-- with the statement and kept with its plan. Row security is forced, so whoever may write here is held to them: only a
-- superuser is not. docs/decisions/002 has the figures.

alter table jobforge.jobs
  alter column keyed drop expression,
  drop constraint jobs_state_sound,
  drop constraint jobs_counts_sound;
alter table jobforge.jobs alter column keyed set default false;

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

alter table jobforge.job_history drop constraint job_history_status_known;
create policy sound on jobforge.job_history as restrictive to public with check (status in ('succeeded', 'canceled'));
comment on policy sound on jobforge.job_history is 'History holds what ended well or was canceled; dead letters stay with the living.';

alter table jobforge.leases
  drop constraint leases_window_range,
  drop constraint leases_ttl_range,
  drop constraint leases_solo_window;
create policy sound on jobforge.leases as restrictive to public with check (
  window_size between 1 and 100000 and ttl_seconds between 1 and 3600 and (not solo or window_size = 1));
comment on policy sound on jobforge.leases is 'A lease has a window and a life within bounds; a solo one has a window of one.';

alter table jobforge.lease_claims drop constraint lease_claims_same_length;
create policy sound on jobforge.lease_claims as restrictive to public with check (cardinality(tenant_ids) = cardinality(job_ids));
comment on policy sound on jobforge.lease_claims is 'Each job that a claim names has its tenant beside it.';
