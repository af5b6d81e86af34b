-- owner: jf_fn
-- Who did what: written by every function that changes something for somebody, read page by page. Under the tenant,
-- subject to row-level security; the operators' half is in 79_audit_system.sql.

create or replace function jobforge.list_audit(
  p_tenant_id uuid, p_subject_kind text default null, p_subject_id text default null, p_actor text default null,
  p_after timestamptz default null, p_before timestamptz default null, p_limit integer default 50, p_cursor text default null)
returns table (
  id uuid, at timestamptz, actor text, credential text, request_id text, action text, subject_kind text, subject_id text,
  job_id uuid, detail jsonb, next_cursor text, complete boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  return query
  select a.id, a.at, a.actor, a.credential, a.request_id, a.action, a.subject_kind, a.subject_id, a.job_id, a.detail,
    a.next_cursor, a.complete
  from jobforge.audit_page(p_tenant_id, p_subject_kind, p_subject_id, p_actor, p_after, p_before, p_limit, p_cursor) as a;
end
$$;
comment on function jobforge.list_audit(uuid, text, text, text, timestamptz, timestamptz, integer, text) is
  'A page of a tenant''s audit log, newest first: about one subject (job, bulk, connector_config, api_key, tenant, …), by one '
  'actor (a login or a credential), of a period. The last row has no id: it tells the cursor of the next page and whether this '
  'one is complete.';
grant execute on function jobforge.list_audit(uuid, text, text, text, timestamptz, timestamptz, integer, text)
  to jf_tenant, jf_operator;

create or replace function jobforge.audit_page(
  p_tenant_id uuid, p_subject_kind text, p_subject_id text, p_actor text, p_after timestamptz, p_before timestamptz,
  p_limit integer, p_cursor text)
returns table (
  tenant_id uuid, id uuid, at timestamptz, actor text, credential text, request_id text, action text, subject_kind text,
  subject_id text, job_id uuid, detail jsonb, next_cursor text, complete boolean)
language plpgsql stable
as $$
declare
  v_at timestamptz := coalesce(p_before, 'infinity');
  v_id uuid := '00000000-0000-0000-0000-000000000000';
  v_left integer := p_limit;
  v_seen integer;
  v_row record;
begin
  if p_limit is null or p_limit not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 1000');
  elsif p_subject_id is not null and p_subject_kind is null then
    perform jobforge.refuse('JF001', 'subject_kind_missing', 'p_subject_id needs its p_subject_kind');
  end if;
  if p_cursor is not null then
    select c.at, c.id into v_at, v_id from jobforge.read_cursor(p_cursor) as c;
  end if;
  -- Ten thousand are looked at; a filter that finds little ends there with a cursor to go on from.
  for v_round in 1..10 loop
    v_seen := 0;
    for v_row in
      select n.* from jobforge.previous_audits(p_tenant_id, p_subject_kind, p_subject_id, p_after, v_at, v_id) as n
    loop
      v_seen := v_seen + 1;
      v_at := v_row.at; v_id := v_row.id;
      continue when not (p_subject_kind is null or coalesce(v_row.subject_kind = p_subject_kind, false))
        or not (p_subject_id is null or v_row.subject_id = p_subject_id)
        or not (p_actor is null or v_row.actor = p_actor or coalesce(v_row.credential = p_actor, false));
      tenant_id := v_row.tenant_id; id := v_row.id; at := v_row.at; actor := v_row.actor; credential := v_row.credential;
      request_id := v_row.request_id; action := v_row.action; subject_kind := v_row.subject_kind;
      subject_id := v_row.subject_id; job_id := v_row.job_id; detail := v_row.detail;
      return next;
      v_left := v_left - 1;
      exit when v_left = 0;
    end loop;
    exit when v_left = 0 or v_seen < 1000;
  end loop;
  return query select null::uuid, null::uuid, null::timestamptz, null, null, null, null, null, null, null::uuid, null::jsonb,
    case when v_left = 0 or v_seen = 1000 then jobforge.write_cursor(v_at, v_id) end, v_left = 0 or v_seen < 1000;
end
$$;
comment on function jobforge.audit_page(uuid, text, text, text, timestamptz, timestamptz, integer, text) is
  'A page of the audit log with the rights of whoever calls: a tenant''s entries, or, without a tenant, everybody''s.';
grant execute on function jobforge.audit_page(uuid, text, text, text, timestamptz, timestamptz, integer, text) to jf_sys;

create or replace function jobforge.previous_audits(
  p_tenant_id uuid, p_subject_kind text, p_subject_id text, p_after timestamptz, p_at timestamptz, p_id uuid)
returns setof jobforge.audit_log
language sql stable
as $$
  -- One of the three is asked, each by its index.
  (select a.* from jobforge.audit_log a
   where p_tenant_id is not null and p_subject_id is not null and a.tenant_id = p_tenant_id
     and a.subject_kind = p_subject_kind and a.subject_id = p_subject_id
     and (a.at, a.id) < (p_at, p_id) and a.at >= coalesce(p_after, '-infinity')
   order by a.at desc, a.id desc limit 1000)
  union all
  (select a.* from jobforge.audit_log a
   where p_tenant_id is not null and p_subject_id is null and a.tenant_id = p_tenant_id
     and (a.at, a.id) < (p_at, p_id) and a.at >= coalesce(p_after, '-infinity')
   order by a.at desc, a.id desc limit 1000)
  union all
  (select a.* from jobforge.audit_log a
   where p_tenant_id is null and (a.at at time zone 'UTC', a.id) < (p_at at time zone 'UTC', p_id)
     and a.at at time zone 'UTC' >= coalesce(p_after, '-infinity') at time zone 'UTC'
   order by a.at at time zone 'UTC' desc, a.id desc limit 1000)
  order by at desc, id desc
$$;
comment on function jobforge.previous_audits(uuid, text, text, timestamptz, timestamptz, uuid) is
  'The thousand entries before a place: about a subject of a tenant, of a tenant, or of everybody.';
grant execute on function jobforge.previous_audits(uuid, text, text, timestamptz, timestamptz, uuid) to jf_sys;

-- A function whose arguments changed would stand beside the old one.
drop function if exists jobforge.audit(uuid, text, uuid, jsonb, timestamptz);
create or replace function jobforge.audit(
  p_tenant_id uuid, p_action text, p_subject_kind text, p_subject_id text, p_detail jsonb, p_now timestamptz,
  p_job_id uuid default null) returns void
language sql volatile
as $$
  -- Anybody can set app.actor and app.request_id: they stand beside the login, never in its place.
  insert into jobforge.audit_log (tenant_id, at, actor, credential, request_id, action, subject_kind, subject_id, job_id, detail)
  values (p_tenant_id, p_now, session_user, left(nullif(current_setting('app.actor', true), ''), 255),
    left(nullif(current_setting('app.request_id', true), ''), 128), p_action, p_subject_kind, p_subject_id,
    coalesce(p_job_id, case when p_subject_kind = 'job' then p_subject_id::uuid end), coalesce(p_detail, '{}'))
$$;
comment on function jobforge.audit(uuid, text, text, text, jsonb, timestamptz, uuid) is
  'Writes down who did what to which subject, with the rights of whoever calls: the login, and whom it says it acts for.';
grant execute on function jobforge.audit(uuid, text, text, text, jsonb, timestamptz, uuid) to jf_sys;
