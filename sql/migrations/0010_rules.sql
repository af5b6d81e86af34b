-- owner: jf_owner
-- What a job type says of its payloads: the schema they must fit, and what of them is never shown.

alter table jobforge.definitions
  add column arg_schema jsonb,
  add column redact     text[] not null default '{}',
  -- The places that the schema marks writeOnly, found when it is stored.
  add column write_only text[] not null default '{}',
  add constraint definitions_schema_kind check (jsonb_typeof(arg_schema) in ('object', 'boolean')),
  add constraint definitions_schema_size check (octet_length(arg_schema::text) <= 65536),
  add constraint definitions_redact_count check (cardinality(redact) <= 100 and array_position(redact, null) is null),
  add constraint definitions_write_only_count check (cardinality(write_only) <= 1000);

-- A derived dedupe key repeats the payload: it is told by get_job alone, which hides it where payloads are redacted.
revoke select (dedupe_key) on jobforge.jobs from jf_tenant, jf_operator;
revoke select (dedupe_key) on jobforge.job_history from jf_tenant, jf_operator;
