-- owner: jf_owner
-- A claim of jobs that will be over at once leaves them in the claim's order: what it writes then is in no index, and its new version
-- of the row needs no entries of its own. What is claimed for longer is taken out of the order, as before.

-- Running and out of the order. Rows that were claimed before this stand among the future ones until they end; promote
-- passes them by.
alter table jobforge.jobs add column taken boolean not null default false;

-- A claimed row is larger by what it tells of its claim; it shall find room on its page.
alter table jobforge.jobs set (fillfactor = 45);

create index jobs_later on jobforge.jobs (run_at, tenant_id, id) where not ready and not taken and finished_at is null;
drop index jobforge.jobs_future;
alter index jobforge.jobs_later rename to jobs_future;

alter policy sound on jobforge.jobs with check (
  failures >= 0 and deaths >= 0 and failures + deaths <= fence and keyed = (concurrency_key is not null)
  and case
    when lease_id is not null then status = 'running' and started_at is not null and fence > 0 and finished_at is null
      and (not ready or (not taken and deaths < 2 and priority >= 10 and not keyed))
    when finished_at is not null then status in ('failed', 'dead') and not ready and not taken
    else (status = 'queued' or (status = 'blocked' and not ready)) and not taken
  end);
