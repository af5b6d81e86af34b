-- owner: jf_owner
-- Tenants' data: row-level security, forced; every key starts with tenant_id.

-- Live work only: blocked, queued, running, and the dead letters (failed, dead).
-- `ready` tells due work from work that waits for its run_at: only due work is in the claim's indexes.
--
-- What is always there and of fixed width comes first, then the names that the indexes ask for, then what may be missing:
-- an update looks at every indexed column of the old and the new row, and behind a null or a text it must walk there.
-- What a row may be is told by the policy `sound` (0004).
create table jobforge.jobs (
  tenant_id      uuid        not null,
  id             uuid        not null,
  run_at         timestamptz not null,
  created_at     timestamptz not null,
  fence          integer     not null default 0,
  failures       integer     not null default 0,
  deaths         smallint    not null default 0,
  max_attempts   smallint    not null,
  priority       smallint    not null,
  ready          boolean     not null,
  -- Stands for its key in the claim's indexes, which ask every row.
  keyed          boolean     not null default false,
  queue          text        not null,
  type           text        not null,
  status         text        not null,
  noted          boolean     not null default false,
  lease_id       uuid,
  started_at     timestamptz,
  finished_at    timestamptz,
  cancel_at      timestamptz,
  worker_no      integer,
  retention      text        not null,
  source         text        not null,
  payload        jsonb       not null,
  dedupe_key     text,
  concurrency_key text,
  correlation_id text,
  traceparent    text,
  tags           jsonb,
  source_ref     text,
  created_by     text,
  parent_id      uuid,
  error          text,
  -- Half full: a claim's new version needs an entry beside the old one's.
  constraint jobs_pk primary key (tenant_id, id) with (fillfactor = 50)
) with (fillfactor = 50); -- a claim's new version stays on its page: a sixth less WAL, and no second lock on the old one

-- The turn: tenants by skip-scan, each in its own order. Jobs that killed twice, reserved work and jobs with a
-- concurrency key stand apart: a busy key must not be walked over by every claim.
create index jobs_turn on jobforge.jobs (queue, type, tenant_id, priority, run_at, id)
  where ready and deaths < 2 and priority >= 10 and not keyed;
create index jobs_apart on jobforge.jobs (queue, type, (case when deaths >= 2 then 1 else 0 end), priority, run_at, id)
  where ready and (deaths >= 2 or (priority < 10 and not keyed));
create index jobs_keyed on jobforge.jobs (queue, type, tenant_id, concurrency_key, priority, run_at, id)
  where ready and deaths < 2 and keyed;
create index jobs_future on jobforge.jobs (run_at, tenant_id, id)
  where status = 'queued' and not ready;
create index jobs_dead_letters on jobforge.jobs (tenant_id, finished_at, id)
  where finished_at is not null;
create unique index jobs_dedupe on jobforge.jobs (tenant_id, dedupe_key)
  where dedupe_key is not null and finished_at is null;

-- What is over: succeeded and canceled. Written once, dropped whole, by retention class and time.
create table jobforge.job_history (
  tenant_id      uuid        not null,
  id             uuid        not null,
  run_at         timestamptz not null,
  created_at     timestamptz not null,
  started_at     timestamptz,
  finished_at    timestamptz not null,
  fence          integer     not null,
  failures       integer     not null,
  worker_no      integer,
  deaths         smallint    not null,
  max_attempts   smallint    not null,
  priority       smallint    not null,
  status         text        not null,
  retention      text        not null,
  queue          text        not null,
  type           text        not null,
  payload        jsonb       not null,
  result         jsonb,
  dedupe_key     text,
  concurrency_key text,
  correlation_id text,
  traceparent    text,
  tags           jsonb,
  source         text        not null,
  source_ref     text,
  created_by     text,
  parent_id      uuid,
  error          text
) partition by list (retention);
-- Not unique: that an id is there once follows from its being moved out of the live table, where it is.
create index job_history_id on jobforge.job_history (tenant_id, id);

-- Attempts that did not end the job well; the last attempt of a good job is told by its own row.
create table jobforge.attempts (
  tenant_id   uuid        not null,
  job_id      uuid        not null,
  number      integer     not null,
  status      text        not null,
  worker_no   integer,
  exit_code   integer,
  started_at  timestamptz not null,
  finished_at timestamptz not null,
  error_class text,
  error       text,
  stdout_tail text,
  stderr_tail text,
  constraint attempts_pk primary key (tenant_id, job_id, number),
  constraint attempts_status_known check (status in ('succeeded', 'failed', 'timeout', 'canceled', 'lost')),
  constraint attempts_class_known check (error_class in ('retryable', 'permanent'))
);

create table jobforge.job_logs (
  tenant_id uuid        not null,
  job_id    uuid        not null,
  number    integer     not null,
  line_no   integer     not null,
  at        timestamptz not null,
  level     text        not null,
  message   text        not null,
  constraint job_logs_pk primary key (tenant_id, job_id, number, line_no),
  constraint job_logs_level_known check (level in ('debug', 'info', 'warn', 'error'))
);

create table jobforge.job_progress (
  tenant_id uuid        not null,
  job_id    uuid        not null,
  number    integer     not null,
  percent   real        not null,
  message   text        not null default '',
  at        timestamptz not null,
  constraint job_progress_pk primary key (tenant_id, job_id),
  constraint job_progress_percent_range check (percent between 0 and 100)
) with (fillfactor = 70);

-- Where a job's attempts and logs go when it leaves the live table.
create table jobforge.attempt_history (
  like jobforge.attempts including constraints,
  retention text not null,
  job_finished_at timestamptz not null,
  constraint attempt_history_pk primary key (tenant_id, job_id, number, job_finished_at, retention)
) partition by list (retention);
create table jobforge.log_history (
  like jobforge.job_logs including constraints,
  retention text not null,
  job_finished_at timestamptz not null,
  constraint log_history_pk primary key (tenant_id, job_id, number, line_no, job_finished_at, retention)
) partition by list (retention);

-- Keys of callers and ids of clients: the first job stays the answer.
create table jobforge.idempotency_keys (
  tenant_id    uuid        not null,
  type         text        not null,
  key          text        not null,
  job_id       uuid        not null,
  payload_hash bytea       not null,
  created_at   timestamptz not null,
  constraint idempotency_keys_pk primary key (tenant_id, type, key),
  constraint idempotency_keys_key_length check (length(key) between 1 and 255)
);
create index idempotency_keys_age on jobforge.idempotency_keys (created_at);

create table jobforge.audit_log (
  tenant_id uuid        not null,
  id        uuid        not null default gen_random_uuid(),
  at        timestamptz not null,
  actor     text        not null,
  action    text        not null,
  job_id    uuid,
  detail    jsonb       not null default '{}',
  constraint audit_log_pk primary key (tenant_id, id)
);

create table jobforge.job_history_day partition of jobforge.job_history for values in ('day') partition by range (finished_at);
create table jobforge.job_history_week partition of jobforge.job_history for values in ('week') partition by range (finished_at);
create table jobforge.job_history_month partition of jobforge.job_history for values in ('month') partition by range (finished_at);
create table jobforge.job_history_year partition of jobforge.job_history for values in ('year') partition by range (finished_at);
create table jobforge.attempt_history_day partition of jobforge.attempt_history for values in ('day') partition by range (job_finished_at);
create table jobforge.attempt_history_week partition of jobforge.attempt_history for values in ('week') partition by range (job_finished_at);
create table jobforge.attempt_history_month partition of jobforge.attempt_history for values in ('month') partition by range (job_finished_at);
create table jobforge.attempt_history_year partition of jobforge.attempt_history for values in ('year') partition by range (job_finished_at);
create table jobforge.log_history_day partition of jobforge.log_history for values in ('day') partition by range (job_finished_at);
create table jobforge.log_history_week partition of jobforge.log_history for values in ('week') partition by range (job_finished_at);
create table jobforge.log_history_month partition of jobforge.log_history for values in ('month') partition by range (job_finished_at);
create table jobforge.log_history_year partition of jobforge.log_history for values in ('year') partition by range (job_finished_at);

-- A missing partition must never stop a completion.
do $$
declare
  v_parent text;
  v_class text;
begin
  foreach v_parent in array array['job_history', 'attempt_history', 'log_history'] loop
    foreach v_class in array array['day', 'week', 'month', 'year'] loop
      execute format('create table jobforge.%I partition of jobforge.%I default',
        v_parent || '_' || v_class || '_default', v_parent || '_' || v_class);
    end loop;
  end loop;
end
$$;
