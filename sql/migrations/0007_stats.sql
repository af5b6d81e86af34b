-- owner: jf_owner
-- Sampled series: how deep, how many came and went, per queue and per tenant.

-- Counts are of the `seconds` before the sample. `estimated` says that too much was there to count all of it.
alter table jobforge.queue_stats
  add column enqueued       bigint           not null default 0,
  add column completed      bigint           not null default 0,
  add column failed         bigint           not null default 0,
  add column canceled       bigint           not null default 0,
  add column seconds        double precision not null default 0,
  add column oldest_seconds double precision;
alter table jobforge.queue_stats rename column capped to estimated;
create index queue_stats_age on jobforge.queue_stats (at);

-- The same per tenant and minute, for the busiest tenants of each sample: depths as last seen, counts added up.
create table jobforge.tenant_stats (
  tenant_id      uuid             not null,
  at             timestamptz      not null,
  queued         bigint           not null,
  ready          bigint           not null,
  running        bigint           not null,
  dead           bigint           not null,
  enqueued       bigint           not null,
  completed      bigint           not null,
  failed         bigint           not null,
  canceled       bigint           not null,
  seconds        double precision not null,
  oldest_seconds double precision,
  estimated      boolean          not null,
  constraint tenant_stats_pk primary key (tenant_id, at)
) with (fillfactor = 70);
create index tenant_stats_age on jobforge.tenant_stats (at);

-- How far the samples have come: everything up to `until` is counted.
create table jobforge.sampler (
  one        boolean     not null default true,
  began_at   timestamptz,
  until      timestamptz,
  sampled_at timestamptz,
  constraint sampler_pk primary key (one),
  constraint sampler_one check (one)
) with (fillfactor = 10);
insert into jobforge.sampler default values;

-- Where in a partition of the history the next sample starts to read: it is written at its end alone.
create table jobforge.history_tails (
  leaf  oid    not null,
  block bigint not null,
  constraint history_tails_pk primary key (leaf)
) with (fillfactor = 50);

alter table jobforge.tenant_stats enable row level security, force row level security;
create policy tenant_rows on jobforge.tenant_stats for all to jf_fn
  using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
  with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
create policy tenant_reads on jobforge.tenant_stats for select to jf_tenant, jf_operator
  using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
create policy login_bound on jobforge.tenant_stats as restrictive for all to jf_fn, jf_tenant, jf_operator
  using ((select exists (select from jobforge.logins l where l.role_name = session_user::text
    and (l.tenant_id is null or l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid))));
grant select, insert, update, delete on jobforge.tenant_stats to jf_fn, jf_sys;
grant select on jobforge.tenant_stats to jf_tenant, jf_operator;

do $$
declare
  v_table text;
begin
  foreach v_table in array array['tenant_stats', 'sampler', 'history_tails'] loop
    execute format('alter table jobforge.%I enable row level security, force row level security', v_table);
    execute format('create policy sys_all on jobforge.%I for all to jf_sys using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on jobforge.%I to jf_sys', v_table);
  end loop;
end
$$;
