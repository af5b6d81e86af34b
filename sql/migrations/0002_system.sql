-- owner: jf_owner
-- System tables: no tenant's data, reached only through functions.

create table jobforge.tenants (
  id         uuid        not null,
  name       text        not null,
  paused_at  timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  constraint tenants_pk primary key (id),
  constraint tenants_name_length check (length(name) between 1 and 200)
);
create index tenants_held on jobforge.tenants (id) where paused_at is not null;
insert into jobforge.tenants (id, name) values ('00000000-0000-0000-0000-000000000000', 'global');

-- Which login may act for which tenant; a null tenant is trusted to name any.
create table jobforge.logins (
  -- The collation of role names: with another one session_user would not reach the key's index.
  role_name  text        collate "C" not null,
  tenant_id  uuid,
  created_at timestamptz not null default clock_timestamp(),
  constraint logins_pk primary key (role_name)
);

create table jobforge.definitions (
  key             text        not null,
  description     text        not null default '',
  queue           text        not null default 'default',
  priority        smallint    not null default 100,
  timeout_seconds integer     not null default 300,
  max_attempts    smallint    not null default 5,
  max_deaths      smallint    not null default 5,
  retry_base_ms   bigint      not null default 1000,
  retry_factor    real        not null default 2,
  retry_cap_ms    bigint      not null default 3600000,
  retry_jitter    real        not null default 0.1,
  retention       text        not null default 'week',
  is_active       boolean     not null default true,
  created_at      timestamptz not null default clock_timestamp(),
  updated_at      timestamptz not null default clock_timestamp(),
  constraint definitions_pk primary key (key),
  constraint definitions_key_form check (key ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$'),
  constraint definitions_queue_form check (queue ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$'),
  constraint definitions_priority_range check (priority between 0 and 1000),
  constraint definitions_timeout_range check (timeout_seconds between 1 and 604800),
  constraint definitions_attempts_range check (max_attempts between 1 and 1000),
  constraint definitions_deaths_range check (max_deaths between 1 and 100),
  constraint definitions_retry_base_range check (retry_base_ms between 1 and 86400000),
  constraint definitions_retry_factor_range check (retry_factor between 1 and 100),
  constraint definitions_retry_cap_range check (retry_cap_ms between retry_base_ms and 2592000000),
  constraint definitions_retry_jitter_range check (retry_jitter between 0 and 1),
  constraint definitions_retention_known check (retention in ('day', 'week', 'month', 'year'))
);

create table jobforge.workers (
  no         integer     generated always as identity,
  worker_id  text        not null,
  host       text        not null default '',
  pid        integer,
  version    text        not null default '',
  queues     text[]      not null default '{}',
  types      text[]      not null default '{}',
  slots      integer     not null default 1,
  running    integer     not null default 0,
  metadata   jsonb       not null default '{}',
  started_at timestamptz not null,
  last_seen  timestamptz not null,
  stopped_at timestamptz,
  constraint workers_pk primary key (no),
  constraint workers_worker_id_unique unique (worker_id),
  constraint workers_worker_id_length check (length(worker_id) between 1 and 200),
  constraint workers_slots_range check (slots between 1 and 100000)
);

-- A worker's time-limited right to run jobs. `window_size` bounds how many of its jobs may have
-- started without having been reported: the rest of a dead worker's buffer goes back free.
create table jobforge.leases (
  id          uuid        not null,
  worker_no   integer     not null,
  tenant_id   uuid,
  window_size integer     not null,
  ttl_seconds integer     not null,
  solo        boolean     not null default false,
  created_at  timestamptz not null,
  beat_at     timestamptz not null,
  expires_at  timestamptz not null,
  constraint leases_pk primary key (id)
) with (fillfactor = 50);
create index leases_expiry on jobforge.leases (expires_at);

-- What each claim call handed out, in claim order: the reaper's way from a lease to its jobs.
create sequence jobforge.claim_numbers;
create table jobforge.lease_claims (
  lease_id   uuid   not null,
  claim_no   bigint not null default nextval('jobforge.claim_numbers'),
  tenant_ids uuid[] not null,
  job_ids    uuid[] not null,
  constraint lease_claims_pk primary key (lease_id, claim_no)
);

-- Ids do not compress: they are stored as they are, out of line.
alter table jobforge.lease_claims alter column tenant_ids set storage external, alter column job_ids set storage external;

-- Where the claims' remembered positions may not be trusted: `low` is the earliest run_at at which a job may
-- still appear behind them, because a transaction that was writing at `mark_at` may be open.
create table jobforge.sweeps (
  queue    text        not null,
  lanes    text        not null,
  swept_at timestamptz not null,
  full_at  timestamptz not null,
  low      timestamptz not null,
  mark_at  timestamptz not null,
  mark_xid xid8        not null,
  constraint sweeps_pk primary key (queue, lanes)
) with (fillfactor = 50);

-- Tenants with ready work and nothing that holds them back, refreshed at most once a second
-- and only while held tenants stand in the way of the turn.
create unlogged table jobforge.turn_candidates (
  queue     text not null,
  type      text not null,
  tenant_id uuid not null,
  constraint turn_candidates_pk primary key (queue, type, tenant_id)
);
create unlogged table jobforge.turn_refreshes (
  queue        text        not null,
  type         text        not null,
  refreshed_at timestamptz not null,
  constraint turn_refreshes_pk primary key (queue, type)
) with (fillfactor = 50);

-- Workers that sleep and want a NOTIFY, and the one of them that looks each second for all.
create table jobforge.sleepers (
  worker_id  text        not null,
  queues     text[]      not null,
  types      text[]      not null,
  expires_at timestamptz not null,
  constraint sleepers_pk primary key (worker_id)
) with (fillfactor = 50);
create table jobforge.sentinel (
  one        boolean     not null default true,
  holder     text        not null,
  expires_at timestamptz not null,
  constraint sentinel_pk primary key (one),
  constraint sentinel_one check (one)
) with (fillfactor = 10);

-- The scheduler's leader, under a term that only grows, and the liveness that tells an outage from a death.
create table jobforge.leader (
  one               boolean     not null default true,
  holder            text        not null default '',
  term              bigint      not null default 0,
  expires_at        timestamptz not null default '-infinity',
  alive_at          timestamptz not null default clock_timestamp(),
  server_started_at timestamptz not null default pg_postmaster_start_time(),
  constraint leader_pk primary key (one),
  constraint leader_one check (one)
) with (fillfactor = 10);
insert into jobforge.leader default values;

create table jobforge.queue_stats (
  at       timestamptz not null,
  queue    text        not null,
  queued   bigint      not null,
  ready    bigint      not null,
  running  bigint      not null,
  dead     bigint      not null,
  capped   boolean     not null,
  constraint queue_stats_pk primary key (queue, at)
);

do $$
declare
  v_table text;
begin
  foreach v_table in array array['tenants', 'logins', 'definitions', 'workers', 'leases', 'lease_claims', 'sweeps',
      'turn_candidates', 'turn_refreshes', 'sleepers', 'sentinel', 'leader', 'queue_stats'] loop
    execute format('alter table jobforge.%I enable row level security, force row level security', v_table);
    execute format('create policy sys_all on jobforge.%I for all to jf_sys using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on jobforge.%I to jf_sys', v_table);
  end loop;
end
$$;
grant usage on sequence jobforge.claim_numbers to jf_sys;

-- What a tenant's functions must read of the system: definitions, whether a tenant exists, who may act, who sleeps.
create policy fn_read on jobforge.definitions for select to jf_fn using (true);
create policy fn_read on jobforge.tenants for select to jf_fn using (true);
create policy fn_read on jobforge.logins for select to jf_fn using (true);
create policy fn_read on jobforge.sleepers for select to jf_fn using (true);
create policy fn_read on jobforge.workers for select to jf_fn using (true);
create policy fn_read on jobforge.leases for select to jf_fn using (true);
create policy fn_read on jobforge.sweeps for select to jf_fn using (true);
grant select on jobforge.definitions, jobforge.tenants, jobforge.logins, jobforge.sleepers, jobforge.workers,
  jobforge.leases, jobforge.sweeps to jf_fn;

-- A claim's remembered position: jobs of this lane and priority up to (run_at, id) were taken.
create type jobforge.claim_mark as (
  queue text, type text, tenant_id uuid, priority smallint, run_at timestamptz, id uuid
);
grant usage on type jobforge.claim_mark to jf_sys;

-- One row of a claim's answer.
create type jobforge.claimed as (
  lease_id uuid, expires_at timestamptz, solo boolean, claim_no bigint, tenant_id uuid, id uuid, type text, queue text,
  priority smallint, run_at timestamptz, fence integer, failures integer, deaths smallint, max_attempts smallint,
  timeout_seconds integer, correlation_id text, traceparent text, payload jsonb, locator tid, turn uuid, more boolean
);
grant usage on type jobforge.claimed to jf_sys, jf_worker;
