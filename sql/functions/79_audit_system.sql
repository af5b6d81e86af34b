-- owner: jf_sys
-- The operators' half of the audit log: what a server notes itself, everybody's entries, and their end.

create or replace function jobforge.record_audit(
  p_tenant_id uuid, p_action text, p_subject_kind text default null, p_subject_id text default null,
  p_detail jsonb default '{}') returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_bound uuid := jobforge.login_tenant();
begin
  if p_action is null or p_action !~ '^[a-z][a-z0-9_.]{0,62}$' then
    perform jobforge.refuse('JF001', 'action_malformed', 'an action has 1 to 63 small letters, digits, dots, underscores');
  elsif (p_subject_kind is null) <> (p_subject_id is null) or p_subject_kind !~ '^[a-z][a-z_]{0,31}$' or length(p_subject_id) > 255
      or (p_subject_kind = 'job' and p_subject_id !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') then
    perform jobforge.refuse('JF001', 'subject_malformed', format('%s: a subject has a kind and an id, or neither', p_action));
  elsif jsonb_typeof(p_detail) <> 'object' or octet_length(p_detail::text) > 16384 then
    perform jobforge.refuse('JF001', 'detail_malformed', format('%s: p_detail is an object of at most 16 KiB', p_action));
  elsif v_bound is not null and p_tenant_id is distinct from v_bound then
    perform jobforge.refuse('JF009', 'login_not_bound', format('login %s may not act for this tenant', session_user));
  elsif p_tenant_id is not null and not exists (select from jobforge.tenants t where t.id = p_tenant_id) then
    perform jobforge.refuse('JF007', 'tenant_unknown', format('tenant %s is not known', p_tenant_id));
  end if;
  perform jobforge.audit(coalesce(p_tenant_id, '00000000-0000-0000-0000-000000000000'), p_action, p_subject_kind, p_subject_id,
    p_detail, v_now);
end
$$;
comment on function jobforge.record_audit(uuid, text, text, text, jsonb) is
  'Writes down what a server did without a function that does it: a super-admin who acts for a tenant. Without a tenant it is the '
  'system''s.';
grant execute on function jobforge.record_audit(uuid, text, text, text, jsonb) to jf_operator;

create or replace function jobforge.list_system_audit(
  p_tenant_id uuid default null, p_subject_kind text default null, p_subject_id text default null, p_actor text default null,
  p_after timestamptz default null, p_before timestamptz default null, p_limit integer default 50, p_cursor text default null)
returns table (
  tenant_id uuid, id uuid, at timestamptz, actor text, credential text, request_id text, action text, subject_kind text,
  subject_id text, job_id uuid, detail jsonb, next_cursor text, complete boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_bound uuid := jobforge.login_tenant();
begin
  if v_bound is not null and p_tenant_id is distinct from v_bound then
    perform jobforge.refuse('JF009', 'login_not_bound', format('login %s may not read this audit log', session_user));
  end if;
  return query
  select a.* from jobforge.audit_page(p_tenant_id, p_subject_kind, p_subject_id, p_actor, p_after, p_before, p_limit, p_cursor) as a;
end
$$;
comment on function jobforge.list_system_audit(uuid, text, text, text, timestamptz, timestamptz, integer, text) is
  'A page of everybody''s audit log, or of one tenant''s, newest first, as list_audit tells it; the system''s own entries are '
  'those of tenant 0.';
grant execute on function jobforge.list_system_audit(uuid, text, text, text, timestamptz, timestamptz, integer, text)
  to jf_operator;

create or replace function jobforge.prune_audit(p_now timestamptz, p_limit integer) returns integer
language plpgsql volatile
set enable_seqscan = off set jit = off
as $$
declare
  v_pruned integer;
begin
  delete from jobforge.audit_log a where a.ctid = any (array(
    select o.ctid from jobforge.audit_log o where o.at at time zone 'UTC' < p_now at time zone 'UTC' - interval '365 days'
    order by o.at at time zone 'UTC' limit p_limit));
  get diagnostics v_pruned = row_count;
  return v_pruned;
end
$$;
comment on function jobforge.prune_audit(timestamptz, integer) is 'Deletes entries of more than 365 days ago, the oldest first.';
