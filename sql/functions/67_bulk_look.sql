-- owner: jf_fn
-- What operations on many jobs stand on: their filter and walk; and the looks at them.

create or replace function jobforge.get_bulk(p_tenant_id uuid, p_operation_id uuid) returns jobforge.bulk_operation
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_operation jobforge.bulk_operations;
begin
  perform jobforge.require_tenant(p_tenant_id);
  select o.* into v_operation from jobforge.bulk_operations o where o.tenant_id = p_tenant_id and o.id = p_operation_id;
  return jobforge.tell_bulk(jobforge.require_bulk(v_operation, p_operation_id));
end
$$;
comment on function jobforge.get_bulk(uuid, uuid) is 'One operation, and how far it is.';
grant execute on function jobforge.get_bulk(uuid, uuid) to jf_tenant, jf_operator;

create or replace function jobforge.list_bulks(p_tenant_id uuid, p_limit integer default 50, p_before uuid default null)
returns setof jobforge.bulk_operation
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_limit(p_limit);
  return query
  select t.* from (select o from jobforge.bulk_operations o where o.tenant_id = p_tenant_id and (p_before is null or o.id < p_before)
                   order by o.id desc limit p_limit) as p(o)
  cross join lateral jobforge.tell_bulk(p.o) as t order by t.id desc;
end
$$;
comment on function jobforge.list_bulks(uuid, integer, uuid) is 'Operations, the latest first, before p_before.';
grant execute on function jobforge.list_bulks(uuid, integer, uuid) to jf_tenant, jf_operator;

create or replace function jobforge.list_bulk_results(
  p_tenant_id uuid, p_operation_id uuid default null, p_job_id uuid default null, p_verdict text default null,
  p_limit integer default 100, p_after uuid default null)
returns table (operation_id uuid, job_id uuid, at timestamptz, verdict text, error_code text, error_reason text, before jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_limit(p_limit);
  if num_nonnulls(p_operation_id, p_job_id) <> 1 then
    perform jobforge.refuse('JF001', 'operation_or_job', 'name an operation or a job');
  elsif p_job_id is not null then
    return query
    select r.operation_id, r.job_id, r.at, r.verdict, r.error_code, r.error_reason, jobforge.redact_before(r.before) from jobforge.bulk_results r
    where r.tenant_id = p_tenant_id and r.job_id = p_job_id and (p_verdict is null or r.verdict = p_verdict)
      and (p_after is null or r.operation_id > p_after)
    order by r.operation_id limit p_limit;
  else
    return query
    select r.operation_id, r.job_id, r.at, r.verdict, r.error_code, r.error_reason, jobforge.redact_before(r.before) from jobforge.bulk_results r
    where r.tenant_id = p_tenant_id and r.operation_id = p_operation_id and (p_verdict is null or r.verdict = p_verdict)
      and (p_after is null or r.job_id > p_after)
    order by r.job_id limit p_limit;
  end if;
end
$$;
comment on function jobforge.list_bulk_results(uuid, uuid, uuid, text, integer, uuid) is
  'What became of an operation''s jobs, or what operations did to a job; a page behind p_after (a job or an operation).';
grant execute on function jobforge.list_bulk_results(uuid, uuid, uuid, text, integer, uuid) to jf_tenant, jf_operator;

create or replace function jobforge.read_filter(p_kind text, p_filter jsonb) returns jobforge.job_filter
language plpgsql stable
as $$
declare
  v_filter jobforge.job_filter;
  v_key text;
  v_known text[] := case p_kind when 'redrive' then array['failed', 'dead']
    else array['blocked', 'queued', 'running', 'failed', 'dead'] end;
begin
  if p_filter is null or jsonb_typeof(p_filter) <> 'object' then
    perform jobforge.refuse('JF001', 'filter_malformed', 'p_filter must be a JSON object');
  elsif p_filter = '{}' then
    perform jobforge.refuse('JF001', 'filter_empty', 'p_filter is empty: for all jobs name all their statuses');
  end if;
  for v_key in select k from jsonb_object_keys(p_filter) as k order by k loop
    if v_key not in ('statuses', 'type', 'queue', 'fingerprint', 'tag', 'created_after', 'created_before', 'finished_after',
        'finished_before') then
      perform jobforge.refuse('JF001', 'filter_unknown', format('p_filter: %s is no key of a filter', left(v_key, 100)));
    -- A null would ask for nothing, and so match everything.
    elsif jsonb_typeof(p_filter -> v_key) <> (case v_key when 'statuses' then 'array' else 'string' end) then
      perform jobforge.refuse('JF001', 'filter_malformed', format('p_filter: %s is of the wrong kind', v_key));
    end if;
  end loop;
  begin
    v_filter := jsonb_populate_record(null::jobforge.job_filter, p_filter);
  exception when data_exception then
    perform jobforge.refuse('JF001', 'filter_malformed', format('p_filter: %s', sqlerrm));
  end;
  if v_filter.statuses = '{}' or array_ndims(v_filter.statuses) > 1 or not coalesce(v_filter.statuses <@ v_known, true)
      or array_position(v_filter.statuses, null) is not null then
    perform jobforge.refuse('JF001', 'status_unknown', format('p_filter: a %s is of jobs that are %s', p_kind,
      array_to_string(v_known, ', ')));
  end if;
  -- Only of dead letters: what is retried meanwhile is none any more.
  if coalesce(v_filter.fingerprint, v_filter.finished_after::text, v_filter.finished_before::text) is not null then
    v_filter.statuses := coalesce(v_filter.statuses, array['failed', 'dead']);
  end if;
  return v_filter;
end
$$;
comment on function jobforge.read_filter(text, jsonb) is
  'The filter of an operation, its times as the caller meant them; what is unknown, malformed or empty is refused, for it would match more than was meant.';

create or replace function jobforge.scan_bulk(
  p_tenant_id uuid, p_kind text, p_filter jobforge.job_filter, p_at timestamptz, p_id uuid, p_until timestamptz, p_limit integer)
returns table (at timestamptz, id uuid, matched boolean)
language plpgsql stable
as $$
begin
  -- Dead letters have their own index: nothing that waits or runs is walked over.
  if p_kind = 'redrive' or p_filter.statuses <@ array['failed', 'dead']
      or coalesce(p_filter.fingerprint, p_filter.finished_after::text, p_filter.finished_before::text) is not null then
    return query select * from jobforge.scan_dead_letters(p_tenant_id, p_filter, p_at, p_id, p_until, p_limit);
  else
    return query
    select '-infinity'::timestamptz, j.id,
      (p_filter.statuses is null or j.status = any (p_filter.statuses)) and (p_filter.type is null or j.type = p_filter.type)
      and (p_filter.queue is null or j.queue = p_filter.queue) and (p_filter.tag is null or coalesce(j.tags ? p_filter.tag, false))
      and (p_filter.created_after is null or j.created_at >= p_filter.created_after)
      and (p_filter.created_before is null or j.created_at < p_filter.created_before) and j.created_at <= p_until
    from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id > p_id order by j.id limit p_limit;
  end if;
end
$$;
comment on function jobforge.scan_bulk(uuid, text, jobforge.job_filter, timestamptz, uuid, timestamptz, integer) is
  'The next jobs behind a place in an operation''s walk that were there at p_until, and whether each matches.';

create or replace function jobforge.hold_bulk(p_tenant_id uuid, p_operation_id uuid) returns jobforge.bulk_operations
language plpgsql volatile
as $$
declare
  v_operation jobforge.bulk_operations;
begin
  select o.* into v_operation from jobforge.bulk_operations o
  where o.tenant_id = p_tenant_id and o.id = p_operation_id for no key update;
  return jobforge.require_bulk(v_operation, p_operation_id);
end
$$;
comment on function jobforge.hold_bulk(uuid, uuid) is 'The operation, locked: one step at a time.';

create or replace function jobforge.require_bulk(p_operation jobforge.bulk_operations, p_operation_id uuid)
returns jobforge.bulk_operations
language plpgsql immutable
as $$
begin
  if p_operation.id is null then
    perform jobforge.refuse('JF007', 'bulk_unknown', format('operation %s is not known', p_operation_id));
  end if;
  return p_operation;
end
$$;
comment on function jobforge.require_bulk(jobforge.bulk_operations, uuid) is 'Refuses an operation that is not there.';

create or replace function jobforge.tell_bulk(p_operation jobforge.bulk_operations) returns jobforge.bulk_operation
language sql stable
as $$
  select p_operation.id, p_operation.kind, p_operation.status, p_operation.actor, p_operation.reason, p_operation.filter,
    jobforge.redact_patch(p_operation.patch, p_operation.filter), p_operation.max_attempts::integer, p_operation.dry_run, p_operation.matched, p_operation.matched_capped,
    p_operation.done, p_operation.skipped, p_operation.undone, p_operation.kept, p_operation.started_at, p_operation.finished_at,
    p_operation.undone_at
$$;
comment on function jobforge.tell_bulk(jobforge.bulk_operations) is 'An operation as callers see it, without what its patch writes to redacted places.';

create or replace function jobforge.audit_bulk(p_operation jobforge.bulk_operations, p_action text, p_now timestamptz) returns void
language sql volatile
as $$
  -- Without the patch: it may hold parts of payloads, which the audit log does not show.
  select jobforge.audit(p_operation.tenant_id, p_action, 'bulk', p_operation.id::text, jsonb_build_object('operation_id', p_operation.id,
    'kind', p_operation.kind, 'filter', p_operation.filter, 'reason', p_operation.reason, 'edited', p_operation.patch is not null,
    'matched', p_operation.matched, 'done', p_operation.done, 'skipped', p_operation.skipped, 'undone', p_operation.undone,
    'kept', p_operation.kept), p_now)
$$;
comment on function jobforge.audit_bulk(jobforge.bulk_operations, text, timestamptz) is
  'Writes down who began, ended or undid an operation; what became of each job stands in its results.';
