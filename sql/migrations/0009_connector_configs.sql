-- owner: jf_owner
-- What connectors are set up with, per tenant: settings that may be read, and secrets that nobody reads back.

create table jobforge.connector_configs (
  tenant_id       uuid        not null,
  name            text        not null,
  settings        jsonb       not null default '{}',
  disabled_at     timestamptz,
  disabled_reason text,
  created_at      timestamptz not null,
  updated_at      timestamptz not null,
  updated_by      text        not null,
  constraint connector_configs_pk primary key (tenant_id, name),
  constraint connector_configs_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
  constraint connector_configs_settings_object check (jsonb_typeof(settings) = 'object'),
  constraint connector_configs_settings_size check (octet_length(settings::text) <= 65536),
  constraint connector_configs_disabled_with_reason check ((disabled_at is null) = (disabled_reason is null)),
  constraint connector_configs_reason_length check (length(disabled_reason) <= 500),
  constraint connector_configs_author_length check (length(updated_by) between 1 and 255)
);

-- A secret is a reference to the worker's environment, or bytes that only a holder of the key can open. There is no
-- column for its value.
create table jobforge.connector_secrets (
  tenant_id  uuid        not null,
  config     text        not null,
  name       text        not null,
  env        text,
  key_id     text,
  sealed     bytea,
  updated_at timestamptz not null,
  constraint connector_secrets_pk primary key (tenant_id, config, name),
  constraint connector_secrets_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
  constraint connector_secrets_one_kind check (num_nonnulls(env, sealed) = 1 and (sealed is null) = (key_id is null)),
  constraint connector_secrets_env_form check (env ~ '^[A-Za-z_][A-Za-z0-9_]{0,127}$'),
  constraint connector_secrets_key_form check (key_id ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$'),
  -- A nonce of 12 bytes, up to 8 KiB, a tag of 16 bytes.
  constraint connector_secrets_sealed_size check (octet_length(sealed) between 29 and 8220)
);

do $$
declare
  v_table regclass;
begin
  foreach v_table in array array['jobforge.connector_configs', 'jobforge.connector_secrets']::regclass[] loop
    execute format('alter table %s enable row level security, force row level security', v_table);
    execute format($policy$create policy tenant_rows on %s for all to jf_fn
      using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
      with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))$policy$, v_table);
    execute format($policy$create policy tenant_reads on %s for select to jf_tenant, jf_operator
      using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))$policy$, v_table);
    execute format($policy$create policy login_bound on %s as restrictive for all to jf_fn, jf_tenant, jf_operator
      using ((select exists (select from jobforge.logins l where l.role_name = session_user::text
        and (l.tenant_id is null or l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid))))$policy$, v_table);
    execute format('create policy sys_all on %s for all to jf_sys using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %s to jf_fn, jf_sys', v_table);
  end loop;
end
$$;

-- A group of a tenant's jobs, counted.
create type jobforge.job_count as (
  key text, jobs bigint, waiting bigint, running bigint, succeeded bigint, failed bigint, dead bigint, canceled bigint,
  seconds double precision
);
grant usage on type jobforge.job_count to jf_sys;
