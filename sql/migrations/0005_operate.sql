-- owner: jf_owner
-- Operating the queue: weights, limits, pauses, concurrency keys.

-- What holds a queue, a tenant or a definition back, by whose hand, why, and until when.
create table jobforge.pauses (
  kind      text        not null,
  name      text        not null,
  reason    text        not null,
  author    text        not null,
  paused_at timestamptz not null,
  until     timestamptz,
  constraint pauses_pk primary key (kind, name),
  constraint pauses_kind_known check (kind in ('queue', 'tenant', 'definition')),
  constraint pauses_reason_length check (length(reason) <= 500),
  constraint pauses_author_length check (length(author) between 1 and 255),
  constraint pauses_end_later check (until > paused_at)
);

drop index jobforge.tenants_held;
alter table jobforge.tenants
  drop column paused_at,
  add column weight          smallint         not null default 1,
  add column max_pending     integer,
  add column max_in_flight   integer,
  add column rate_per_second double precision,
  add column rate_burst      integer,
  -- Not null while runs may be unknown to max_in_flight, which was not there when they began: the largest number until
  -- a claim has looked, then the first transaction number that has seen the limit for sure.
  add column limited_since   xid8,
  add column retention       text,
  add constraint tenants_weight_range check (weight between 1 and 100),
  add constraint tenants_pending_range check (max_pending between 1 and 100000000),
  add constraint tenants_in_flight_range check (max_in_flight between 1 and 1000000),
  add constraint tenants_rate_range check (rate_per_second between 0.0001 and 1000000),
  add constraint tenants_burst_range check (rate_burst is null or (rate_burst between 1 and 1000000 and rate_per_second is not null)),
  add constraint tenants_retention_known check (retention in ('day', 'week', 'month', 'year'));
create index tenants_limited on jobforge.tenants (id) where max_in_flight is not null or rate_per_second is not null;
create index tenants_weighted on jobforge.tenants (id) where weight <> 1;

alter table jobforge.definitions
  add column max_in_flight         integer,
  add column max_in_flight_per_key integer not null default 1,
  add column rate_per_second       double precision,
  add column rate_burst            integer,
  add column limited_since         xid8,
  add column dead_retention        text    not null default 'year',
  add constraint definitions_in_flight_range check (max_in_flight between 1 and 1000000),
  add constraint definitions_per_key_range check (max_in_flight_per_key between 1 and 100000),
  add constraint definitions_rate_range check (rate_per_second between 0.0001 and 1000000),
  add constraint definitions_burst_range check (rate_burst is null or (rate_burst between 1 and 1000000 and rate_per_second is not null)),
  add constraint definitions_dead_retention_known check (dead_retention in ('day', 'week', 'month', 'year'));

-- Token buckets of what has a rate; a row appears with the first claim.
create table jobforge.limit_buckets (
  kind      text             not null,
  name      text             not null,
  tokens    double precision not null,
  filled_at timestamptz      not null,
  constraint limit_buckets_pk primary key (kind, name),
  constraint limit_buckets_kind_known check (kind in ('tenant', 'definition'))
) with (fillfactor = 50);

-- Runs that count against a limit. A row is a hint: it counts while its job still runs under this lease and fence,
-- so that no report has to touch it, and claims sweep out what ended.
create table jobforge.limited_runs (
  kind      text    not null,
  name      text    not null,
  tenant_id uuid    not null,
  job_id    uuid    not null,
  lease_id  uuid    not null,
  fence     integer not null,
  constraint limited_runs_pk primary key (kind, name, tenant_id, job_id),
  constraint limited_runs_kind_known check (kind in ('tenant', 'definition', 'key'))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- How many jobs wait, for tenants with a large max_pending: counted at most once a second.
create table jobforge.pending_counts (
  tenant_id  uuid        not null,
  pending    bigint      not null,
  counted_at timestamptz not null,
  constraint pending_counts_pk primary key (tenant_id)
) with (fillfactor = 50);

-- Where a tenant with more concurrency keys than one claim looks at goes on.
create unlogged table jobforge.key_turns (
  queue     text not null,
  type      text not null,
  tenant_id uuid not null,
  after_key text not null,
  constraint key_turns_pk primary key (queue, type, tenant_id)
) with (fillfactor = 50);

do $$
declare
  v_table text;
begin
  foreach v_table in array array['pauses', 'limit_buckets', 'limited_runs', 'pending_counts', 'key_turns'] loop
    execute format('alter table jobforge.%I enable row level security, force row level security', v_table);
    execute format('create policy sys_all on jobforge.%I for all to jf_sys using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on jobforge.%I to jf_sys', v_table);
  end loop;
end
$$;

-- What a claim may take now: the lanes that nothing holds back, and what it must heed on the way.
create type jobforge.claim_gate as (
  queues text[], types text[], limited_types text[], keyed boolean, held boolean, weighted boolean, rooms jsonb
);
-- Whose turn it is: the tenants with the quanta they may take, who of them took all of it, and at whom the next claim begins (who is owed part of
-- its visit, or else after whom).
create type jobforge.claim_turn as (
  at uuid, owed integer, tenants uuid[], quanta integer[], hungry uuid[], everybody boolean, listed boolean, seen boolean,
  rooms jsonb
);
grant usage on type jobforge.claim_gate, jobforge.claim_turn to jf_sys;

-- Whether a job counts against a limit; and, on the last row, what the tenant whose turn it is has left of it, and
-- when what a rate holds back may be had.
alter type jobforge.claimed add attribute limited boolean, add attribute owed integer, add attribute retry_at timestamptz;
