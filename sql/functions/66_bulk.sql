-- owner: jf_fn
-- Operations on many jobs: started once, done in steps of one transaction each, undone where that makes sense.

create or replace function jobforge.start_bulk(
  p_tenant_id uuid, p_kind text, p_filter jsonb, p_reason text default null, p_patch jsonb default null,
  p_max_attempts integer default null, p_dry_run boolean default false)
returns jobforge.bulk_operation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz;
  v_filter jobforge.job_filter;
  v_operation jobforge.bulk_operations;
begin
  perform jobforge.require_tenant(p_tenant_id);
  if p_kind is null or p_kind not in ('redrive', 'cancel') then
    perform jobforge.refuse('JF001', 'kind_unknown', 'p_kind is redrive or cancel');
  elsif p_kind <> 'redrive' and (p_patch is not null or p_max_attempts is not null) then
    perform jobforge.refuse('JF001', 'redrive_only', 'p_patch and p_max_attempts are for redrives');
  end if;
  perform jobforge.require_redrive(p_patch, p_max_attempts, p_reason, 1, 1);
  v_filter := jobforge.read_filter(p_kind, p_filter);
  v_now := jobforge.clock();
  insert into jobforge.bulk_operations (tenant_id, id, kind, status, actor, reason, filter, patch, max_attempts, dry_run, matched,
    matched_capped, started_at, finished_at)
  select p_tenant_id, jobforge.make_id(jobforge.id_base(v_now), jobforge.id_tail(), 0), p_kind, case when p_dry_run then 'finished' else 'running' end,
    session_user, coalesce(p_reason, ''), jsonb_strip_nulls(to_jsonb(v_filter)), p_patch, p_max_attempts, coalesce(p_dry_run, false), c.matched, c.capped, v_now,
    case when p_dry_run then v_now end
  from (select count(*) filter (where s.matched) as matched, count(*) = 20000 as capped
        from jobforge.scan_bulk(p_tenant_id, p_kind, v_filter, '-infinity', '00000000-0000-0000-0000-000000000000', v_now, 20000) as s
       ) as c
  returning * into v_operation;
  if not v_operation.dry_run then
    perform jobforge.audit_bulk(v_operation, 'start_bulk', v_now);
  end if;
  return jobforge.tell_bulk(v_operation);
end
$$;
comment on function jobforge.start_bulk(uuid, text, jsonb, text, jsonb, integer, boolean) is
  'Records a redrive or cancel of all jobs that match, and how many they are (capped: of the first 20000 looked at). '
  'step_bulk does it; a dry run is over at once.';
grant execute on function jobforge.start_bulk(uuid, text, jsonb, text, jsonb, integer, boolean) to jf_tenant, jf_operator;

create or replace function jobforge.step_bulk(p_tenant_id uuid, p_operation_id uuid, p_limit integer default 500)
returns jobforge.bulk_operation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz;
  v_operation jobforge.bulk_operations;
  v_filter jobforge.job_filter;
  v_ids uuid[] := '{}';
  v_ats timestamptz[] := '{}';
  v_row record;
  v_seen integer;
  v_looked integer := 0;
  v_counts record;
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_limit(p_limit);
  -- Whoever steps second waits here, and goes on where the first ended.
  v_operation := jobforge.hold_bulk(p_tenant_id, p_operation_id);
  if v_operation.status <> 'running' then
    return jobforge.tell_bulk(v_operation);
  end if;
  v_now := jobforge.clock();
  v_filter := jsonb_populate_record(null::jobforge.job_filter, v_operation.filter);
  loop
    v_seen := 0;
    for v_row in
      select * from jobforge.scan_bulk(p_tenant_id, v_operation.kind, v_filter, v_operation.position_at, v_operation.position_id,
        v_operation.started_at, 1000)
    loop
      v_seen := v_seen + 1;
      v_operation.position_at := v_row.at;
      v_operation.position_id := v_row.id;
      if v_row.matched then
        v_ids := v_ids || v_row.id;
        v_ats := v_ats || v_row.at;
        exit when cardinality(v_ids) = p_limit;
      end if;
    end loop;
    v_looked := v_looked + v_seen;
    exit when cardinality(v_ids) = p_limit or v_seen < 1000 or v_looked >= 20000;
  end loop;
  if v_operation.kind = 'redrive' then
    select count(*) as total, count(*) filter (where r.verdict <> 'skipped') as done into v_counts
    from jobforge.redrive_rows(p_tenant_id, p_operation_id, v_ids, v_operation.patch, v_operation.max_attempts, v_now) as r;
  else
    select count(*) as total, count(*) filter (where r.verdict <> 'skipped') as done into v_counts
    from jobforge.cancel_rows(v_operation, v_filter.statuses, v_ids, v_now) as r;
  end if;
  v_operation.status := case when cardinality(v_ids) < p_limit and v_seen < 1000 then 'finished' else 'running' end;
  if v_counts.total < cardinality(v_ids) then
    v_operation.status := 'running';
    v_operation.position_at := v_ats[v_counts.total];
    v_operation.position_id := v_ids[v_counts.total];
  end if;
  update jobforge.bulk_operations o
  set position_at = v_operation.position_at, position_id = v_operation.position_id, done = o.done + v_counts.done,
    skipped = o.skipped + v_counts.total - v_counts.done, status = v_operation.status,
    finished_at = case when v_operation.status = 'finished' then v_now end,
    -- Needed as it was given only while there are jobs to do.
    patch = case when v_operation.status = 'finished' then jobforge.redact_patch(o.patch, o.filter) else o.patch end
  where o.tenant_id = p_tenant_id and o.id = p_operation_id returning o.* into v_operation;
  if v_operation.status = 'finished' then
    perform jobforge.audit_bulk(v_operation, 'finish_bulk', v_now);
  end if;
  return jobforge.tell_bulk(v_operation);
end
$$;
comment on function jobforge.step_bulk(uuid, uuid, integer) is
  'Does the next jobs of an operation and tells how far it is. Called until its status is no longer running; two at once '
  'do no job twice.';
grant execute on function jobforge.step_bulk(uuid, uuid, integer) to jf_tenant, jf_operator;

create or replace function jobforge.undo_bulk(p_tenant_id uuid, p_operation_id uuid, p_limit integer default 500)
returns jobforge.bulk_operation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz;
  v_operation jobforge.bulk_operations;
  v_row record;
  v_problem text;
  v_undone integer := 0;
  v_kept integer := 0;
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_limit(p_limit);
  v_operation := jobforge.hold_bulk(p_tenant_id, p_operation_id);
  if v_operation.kind <> 'redrive' or v_operation.dry_run then
    perform jobforge.refuse('JF008', 'bulk_not_undoable', format('operation %s cannot be undone: %s', p_operation_id,
      case when v_operation.dry_run then 'it was a dry run' else 'what is canceled is over' end));
  elsif v_operation.status = 'undone' then
    return jobforge.tell_bulk(v_operation);
  end if;
  v_now := jobforge.clock();
  for v_row in
    select r.job_id, r.before from jobforge.bulk_results r
    where r.tenant_id = p_tenant_id and r.operation_id = p_operation_id and r.verdict = 'redriven' order by r.job_id limit p_limit
  loop
    v_problem := jobforge.undo_redrive(p_tenant_id, v_row.job_id, v_row.before);
    update jobforge.bulk_results r
    set verdict = case when v_problem is null then 'undone' else 'kept' end, at = v_now,
      error_code = split_part(v_problem, ':', 1), error_reason = split_part(v_problem, ':', 2)
    where r.tenant_id = p_tenant_id and r.operation_id = p_operation_id and r.job_id = v_row.job_id;
    v_undone := v_undone + (v_problem is null)::integer;
    v_kept := v_kept + (v_problem is not null)::integer;
  end loop;
  update jobforge.bulk_operations o
  set undone = o.undone + v_undone, kept = o.kept + v_kept, finished_at = coalesce(o.finished_at, v_now),
    status = case when v_undone + v_kept < p_limit then 'undone' else 'undoing' end,
    undone_at = case when v_undone + v_kept < p_limit then v_now end
  where o.tenant_id = p_tenant_id and o.id = p_operation_id returning o.* into v_operation;
  if v_operation.status = 'undone' then
    perform jobforge.audit_bulk(v_operation, 'undo_bulk', v_now);
  end if;
  return jobforge.tell_bulk(v_operation);
end
$$;
comment on function jobforge.undo_bulk(uuid, uuid, integer) is
  'Makes the next jobs of a redrive dead letters again, as they were, if they have not started since; ends an operation that '
  'still runs. Called until its status is undone.';
grant execute on function jobforge.undo_bulk(uuid, uuid, integer) to jf_tenant, jf_operator;

create or replace function jobforge.undo_redrive(p_tenant_id uuid, p_job_id uuid, p_before jsonb) returns text
language plpgsql volatile
as $$
declare
  v_old jobforge.jobs := jsonb_populate_record(null::jobforge.jobs, p_before);
begin
  perform from jobforge.jobs j
  where j.tenant_id = p_tenant_id and j.id = p_job_id and j.status = 'queued' and j.fence = v_old.fence for no key update;
  if not found then
    return replace(jobforge.state_problem(p_tenant_id, p_job_id), 'job_queued', 'job_started');
  end if;
  update jobforge.jobs j
  set status = v_old.status, ready = false, run_at = v_old.run_at, finished_at = v_old.finished_at, failures = v_old.failures,
    deaths = v_old.deaths, max_attempts = v_old.max_attempts, payload = coalesce(v_old.payload, j.payload)
  where j.tenant_id = p_tenant_id and j.id = p_job_id;
  return null;
end
$$;
comment on function jobforge.undo_redrive(uuid, uuid, jsonb) is
  'Makes a redriven job what it was, if no attempt of it started since; else tells why not (code:reason).';

create or replace function jobforge.cancel_rows(
  p_operation jobforge.bulk_operations, p_statuses text[], p_job_ids uuid[], p_now timestamptz)
returns table (id uuid, verdict text)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
  v_first constant uuid := p_job_ids[1];
  v_job jobforge.jobs;
  v_status text;
  v_problem text;
begin
  foreach id in array p_job_ids loop
    -- Only the first is waited for: reports take their jobs in an order of their own, and whoever holds jobs while it waits for
    -- another could deadlock with them.
    if id <> v_first then
      perform from jobforge.jobs j where j.tenant_id = p_operation.tenant_id and j.id = cancel_rows.id for no key update skip locked;
      exit when not found and exists (
        select from jobforge.jobs j where j.tenant_id = p_operation.tenant_id and j.id = cancel_rows.id);
    end if;
    -- What moved on between the look and the lock is no longer what the filter speaks of.
    select j.* into v_job from jobforge.jobs j where j.tenant_id = p_operation.tenant_id and j.id = cancel_rows.id
      and (p_statuses is null or j.status = any (p_statuses)) for no key update;
    v_problem := null;
    if v_job.id is null then
      v_problem := jobforge.state_problem(p_operation.tenant_id, cancel_rows.id);
    else
      v_status := jobforge.cancel_held(v_job, nullif(p_operation.reason, ''), p_now);
    end if;
    verdict := case when v_problem is not null then 'skipped' when v_status = 'running' then 'cancel_requested' else 'canceled' end;
    insert into jobforge.bulk_results (tenant_id, operation_id, job_id, at, verdict, error_code, error_reason)
    values (p_operation.tenant_id, p_operation.id, cancel_rows.id, p_now, cancel_rows.verdict, split_part(v_problem, ':', 1),
      split_part(v_problem, ':', 2));
    return next;
  end loop;
end
$$;
comment on function jobforge.cancel_rows(jobforge.bulk_operations, text[], uuid[], timestamptz) is
  'Cancels these jobs under an operation, each by itself, and notes what became of them. Ends before one that somebody else holds, '
  'unless it is the first.';
