-- owner: jf_owner
-- A sweep tells of late jobs that its claim did not come to, and of how far back it looked for who comes after it. And policies go
-- that nobody needs.

alter table jobforge.sweeps
  add column low_before timestamptz,
  add column late boolean not null default false,
  add column late_since timestamptz;
comment on column jobforge.sweeps.low_before is
  'What low was before the last sweep: whoever took that one may have known nothing of a position that the next one has.';
comment on column jobforge.sweeps.late is
  'Whether the last sweep left a job behind the positions that could be had, so that the next is not a second later.';
comment on column jobforge.sweeps.late_since is 'Since when each sweep left such a job.';

-- Nobody reads these tables but the functions to whom other policies give the rows.
drop policy fn_read on jobforge.sweeps;
drop policy tenant_reads on jobforge.connector_configs;
drop policy tenant_reads on jobforge.connector_secrets;
drop policy tenant_reads on jobforge.idempotency_keys;
revoke select on jobforge.sweeps from jf_fn;
