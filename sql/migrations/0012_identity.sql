-- owner: jf_owner
-- Who calls: API keys. And who did what: the audit log tells the credential and the subject of every entry.

-- A key is jf_<id>_<secret>. The secret is nowhere, its hash is told to nobody but the server that compares it.
create table jobforge.api_keys (
  id            text        collate "C" not null,
  secret_sha256 bytea       not null,
  role          text        not null,
  tenant_id     uuid,
  name          text        not null default '',
  created_at    timestamptz not null,
  created_by    text        not null,
  expires_at    timestamptz,
  last_used_at  timestamptz,
  revoked_at    timestamptz,
  revoked_by    text,
  constraint api_keys_pk primary key (id),
  constraint api_keys_id_form check (id ~ '^[a-z0-9]{12}$'),
  constraint api_keys_hash_size check (octet_length(secret_sha256) = 32),
  constraint api_keys_role_known check (role in ('super_admin', 'tenant_admin', 'tenant_viewer', 'producer', 'worker')),
  -- A super-admin is nobody's, a worker may be everybody's, the others are one tenant's.
  constraint api_keys_role_fits_tenant check (case role when 'super_admin' then tenant_id is null when 'worker' then true
    else tenant_id is not null end),
  constraint api_keys_name_length check (length(name) <= 200),
  constraint api_keys_author_length check (length(created_by) between 1 and 255 and length(revoked_by) between 1 and 255),
  constraint api_keys_expiry_later check (expires_at > created_at),
  constraint api_keys_revoked_by_somebody check ((revoked_at is null) = (revoked_by is null))
) with (fillfactor = 70);
create index api_keys_tenant on jobforge.api_keys (tenant_id, id);

alter table jobforge.api_keys enable row level security, force row level security;
create policy sys_all on jobforge.api_keys for all to jf_sys using (true) with check (true);
grant select, insert, update, delete on jobforge.api_keys to jf_sys;

-- `actor` is the database's login, which nobody can choose. `credential` and `request_id` are what that login says of
-- whom it acts for: as trustworthy as the login.
alter table jobforge.audit_log
  add column credential   text,
  add column request_id   text,
  add column subject_kind text,
  add column subject_id   text;
update jobforge.audit_log set subject_kind = 'job', subject_id = job_id::text where job_id is not null;
alter table jobforge.audit_log
  add constraint audit_log_credential_length check (length(credential) <= 255),
  add constraint audit_log_request_length check (length(request_id) <= 128),
  add constraint audit_log_subject_form check ((subject_kind is null) = (subject_id is null)
    and subject_kind ~ '^[a-z][a-z_]{0,31}$' and length(subject_id) <= 255);
-- By an expression: a tenant's page must not walk everybody's entries, and no planner takes this index for one.
create index audit_log_age on jobforge.audit_log ((at at time zone 'UTC'), id);
create index audit_log_tenant on jobforge.audit_log (tenant_id, at, id);
create index audit_log_subject on jobforge.audit_log (tenant_id, subject_kind, subject_id, at, id) where subject_id is not null;
