-- owner: jf_owner
-- A tenant's time zone: what its schedules mean by nine o'clock where they name no zone of their own.

-- The form only. Whether a zone is known depends on the server's zone files, which change: upsert_tenant asks them when a zone
-- is set, and a dump of yesterday can be restored on a server of tomorrow.
alter table jobforge.tenants
  add column time_zone text not null default 'UTC',
  add constraint tenants_time_zone_form check (time_zone ~ '^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$' and length(time_zone) <= 64);
