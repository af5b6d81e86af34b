-- owner: jf_fn
-- Redrive: dead letters go back to work as the same jobs, edited if asked. Each call is a record that can be undone.

create or replace function jobforge.redrive_jobs(
  p_tenant_id uuid, p_job_ids uuid[] default null, p_fingerprint text default null, p_type text default null,
  p_queue text default null, p_failed_after timestamptz default null, p_failed_before timestamptz default null,
  p_patch jsonb default null, p_max_attempts integer default null, p_reason text default null,
  p_dry_run boolean default false, p_limit integer default 1000, p_cursor text default null, p_budget_ms integer default 2000)
returns table (id uuid, verdict text, error_code text, error_reason text, operation_id uuid, next_cursor text, complete boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_filter jsonb := jsonb_strip_nulls(jsonb_build_object('fingerprint', p_fingerprint, 'type', p_type, 'queue', p_queue,
    'finished_after', p_failed_after, 'finished_before', p_failed_before));
  v_operation_id uuid;
  v_found record;
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_redrive(p_patch, p_max_attempts, p_reason, p_limit, p_budget_ms);
  if p_job_ids is null and v_filter = '{}' then
    perform jobforge.refuse('JF001', 'filter_empty', 'redrive: name jobs or a filter');
  elsif p_job_ids is not null and v_filter <> '{}' then
    perform jobforge.refuse('JF001', 'filter_and_ids', 'redrive: name jobs or a filter, not both');
  elsif array_ndims(p_job_ids) > 1 then
    perform jobforge.refuse('JF001', 'columns_differ', 'p_job_ids is a plain list');
  elsif p_job_ids is not null then
    perform jobforge.require_columns(cardinality(p_job_ids), cardinality(array_remove(p_job_ids, null)));
    select array_agg(distinct j) as ids, null::text as next_cursor, true as complete into v_found
    from unnest(p_job_ids) as j;
  end if;
  -- Before the search: a transaction that writes at v_now must be seen to be open (see "Sweep" in sql/README.md).
  v_now := jobforge.clock();
  if not p_dry_run then
    v_operation_id := jobforge.make_id(jobforge.id_base(v_now), jobforge.id_tail(), 0);
    insert into jobforge.bulk_operations (tenant_id, id, kind, status, actor, reason, filter, patch, max_attempts, started_at,
      finished_at)
    values (p_tenant_id, v_operation_id, 'redrive', 'finished', session_user, coalesce(p_reason, ''),
      case when p_job_ids is null then v_filter else jsonb_build_object('jobs', cardinality(p_job_ids)) end,
      jobforge.redact_patch(p_patch, v_filter),
      p_max_attempts, v_now, v_now);
  end if;
  if p_job_ids is null then
    select * into v_found from jobforge.find_dead_letters(p_tenant_id,
      jsonb_populate_record(null::jobforge.job_filter, v_filter), p_cursor, v_now, p_limit, p_budget_ms);
  end if;
  return query
  select r.id, r.verdict, r.error_code, r.error_reason, v_operation_id, null::text, null::boolean
  from jobforge.redrive_rows(p_tenant_id, v_operation_id, v_found.ids, p_patch, p_max_attempts, v_now) as r;
  if not p_dry_run then
    perform jobforge.close_redrive(p_tenant_id, v_operation_id, v_now);
  end if;
  return query select null::uuid, null, null, null, v_operation_id, v_found.next_cursor, v_found.complete;
end
$$;
comment on function jobforge.redrive_jobs(uuid, uuid[], text, text, text, timestamptz, timestamptz, jsonb, integer, text, boolean,
  integer, text, integer) is
  'Puts dead letters back to work, by id or by filter, the oldest first, with their payloads patched if asked. Each row: '
  'redriven, redrivable (dry run) or skipped with a code and a reason. The last row has no id: it tells the cursor to go on '
  'from and whether the search went to its end or limit.';
grant execute on function jobforge.redrive_jobs(uuid, uuid[], text, text, text, timestamptz, timestamptz, jsonb, integer, text,
  boolean, integer, text, integer) to jf_tenant, jf_operator;

create or replace function jobforge.require_redrive(
  p_patch jsonb, p_max_attempts integer, p_reason text, p_limit integer, p_budget_ms integer) returns void
language plpgsql immutable
as $$
begin
  if p_patch is not null then
    perform jobforge.require_patch(p_patch);
  end if;
  if p_max_attempts not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'max_attempts_out_of_range', 'p_max_attempts must be 1 to 1000');
  elsif length(p_reason) > 500 then
    perform jobforge.refuse('JF001', 'reason_length', 'a reason has at most 500 characters');
  elsif p_limit is null or p_limit not between 1 and 10000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 10000');
  elsif p_budget_ms is null or p_budget_ms not between 1 and 60000 then
    perform jobforge.refuse('JF001', 'budget_out_of_range', 'p_budget_ms must be 1 to 60000');
  end if;
end
$$;
comment on function jobforge.require_redrive(jsonb, integer, text, integer, integer) is 'Refuses a malformed redrive.';

create or replace function jobforge.find_dead_letters(
  p_tenant_id uuid, p_filter jobforge.job_filter, p_cursor text, p_now timestamptz, p_limit integer, p_budget_ms integer,
  out ids uuid[], out next_cursor text, out complete boolean)
language plpgsql stable
as $$
declare
  v_until timestamptz := clock_timestamp() + make_interval(secs => p_budget_ms / 1000.0);
  v_at record;
  v_row record;
  v_seen integer;
begin
  ids := '{}';
  v_at := jobforge.read_cursor(coalesce(p_cursor, '0_00000000-0000-0000-0000-000000000000'));
  loop
    v_seen := 0;
    for v_row in
      select * from jobforge.scan_dead_letters(p_tenant_id, p_filter, v_at.at, v_at.id, p_now, 1000)
    loop
      v_seen := v_seen + 1;
      select v_row.finished_at as at, v_row.id as id into v_at;
      if v_row.matched then
        ids := ids || v_row.id;
        exit when cardinality(ids) = p_limit;
      end if;
    end loop;
    exit when cardinality(ids) = p_limit or v_seen < 1000 or clock_timestamp() > v_until;
  end loop;
  complete := cardinality(ids) = p_limit or v_seen < 1000;
  next_cursor := case when cardinality(ids) = p_limit or v_seen = 1000 then jobforge.write_cursor(v_at.at, v_at.id) end;
end
$$;
comment on function jobforge.find_dead_letters(uuid, jobforge.job_filter, text, timestamptz, integer, integer) is
  'The next dead letters that match, the oldest first, within a limit and a time budget.';

create or replace function jobforge.redrive_rows(
  p_tenant_id uuid, p_operation_id uuid, p_job_ids uuid[], p_patch jsonb, p_max_attempts integer, p_now timestamptz)
returns table (id uuid, verdict text, error_code text, error_reason text)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
  v_row record;
  v_end record;
  v_key text;
  v_room integer := jobforge.room_to_wait(p_tenant_id, p_now);
  v_types text[] := '{}';
  v_queues text[] := '{}';
begin
  -- All rows first, in the order of every batch; then the dedupe keys, in the order of keyed enqueues: no deadlock. Dead
  -- letters only: a lock on a job that is none would hide it from claims or stop its report.
  if p_operation_id is not null then
    perform from (select u from unnest(p_job_ids) as u order by u) as o(id)
    cross join lateral (select from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = o.id
                        and j.status in ('failed', 'dead') for no key update) as j;
  end if;
  for v_row in
    select u.id, j.dedupe_key, j.type, j.queue from unnest(p_job_ids) as u(id)
    left join lateral (select k.dedupe_key, k.type, k.queue from jobforge.jobs k
                       where k.tenant_id = p_tenant_id and k.id = u.id offset 0) as j on true
    order by j.dedupe_key, u.id
  loop
    v_end := jobforge.redrive_row(p_tenant_id, v_row.id, p_patch, p_max_attempts, v_room, p_operation_id is null, p_now);
    -- Of two dead letters with one key the first takes it: a dry run must say so too.
    if v_end.problem is null and p_operation_id is null and v_row.dedupe_key = v_key then
      v_end.problem := 'JF008:dedupe_twin_alive';
    end if;
    id := v_row.id;
    error_code := split_part(v_end.problem, ':', 1);
    error_reason := split_part(v_end.problem, ':', 2);
    verdict := case when v_end.problem is not null then 'skipped' when p_operation_id is null then 'redrivable' else 'redriven' end;
    if v_end.problem is null then
      v_key := v_row.dedupe_key;
      v_room := v_room - 1;
      v_types := v_types || v_row.type;
      v_queues := v_queues || v_row.queue;
    end if;
    if p_operation_id is not null then
      insert into jobforge.bulk_results (tenant_id, operation_id, job_id, at, verdict, error_code, error_reason, before)
      values (p_tenant_id, p_operation_id, id, p_now, verdict, error_code, error_reason,
        case when v_end.problem is null then v_end.before end);
    end if;
    return next;
  end loop;
  if p_operation_id is not null and v_types <> '{}' then
    perform jobforge.wake(array(select distinct t from unnest(v_types) as t), array(select distinct q from unnest(v_queues) as q),
      p_now);
  end if;
end
$$;
comment on function jobforge.redrive_rows(uuid, uuid, uuid[], jsonb, integer, timestamptz) is
  'Redrives these jobs under an operation, each by itself, and notes what became of them; without one it only says what would.';

create or replace function jobforge.redrive_row(
  p_tenant_id uuid, p_job_id uuid, p_patch jsonb, p_max_attempts integer, p_room integer, p_dry_run boolean, p_now timestamptz,
  out problem text, out before jsonb)
language plpgsql volatile
as $$
declare
  v_job jobforge.jobs;
  v_new record;
begin
  if p_dry_run then
    select j.* into v_job from jobforge.jobs j
    where j.tenant_id = p_tenant_id and j.id = p_job_id and j.status in ('failed', 'dead');
  else
    -- Held already, but for one that died since. By its status: by finished_at the plan would walk all dead letters.
    select j.* into v_job from jobforge.jobs j
    where j.tenant_id = p_tenant_id and j.id = p_job_id and j.status in ('failed', 'dead') for no key update;
  end if;
  if v_job.id is null then
    problem := jobforge.state_problem(p_tenant_id, p_job_id);
    return;
  end if;
  select null::jsonb as document, null::text as problem into v_new;
  if p_patch is not null then
    select a.document, coalesce(a.problem, jobforge.payload_problem(a.document)) as problem into v_new
    from jobforge.apply_patch(v_job.payload, p_patch, jobforge.redact_paths(v_job.type)) as a;
  end if;
  before := jsonb_build_object('status', v_job.status, 'failures', v_job.failures, 'deaths', v_job.deaths,
      'max_attempts', v_job.max_attempts, 'fence', v_job.fence, 'run_at', v_job.run_at, 'finished_at', v_job.finished_at)
    || case when p_patch is null then '{}' else jsonb_build_object('type', v_job.type, 'payload', v_job.payload) end;
  problem := coalesce(v_new.problem, jobforge.revival_problem(v_job, p_room));
  if problem is null and not p_dry_run then
    problem := jobforge.revive(v_job, v_new.document, p_max_attempts, p_now);
  end if;
end
$$;
comment on function jobforge.redrive_row(uuid, uuid, jsonb, integer, integer, boolean, timestamptz) is
  'Redrives one job or tells why not (code:reason), and what it was.';

create or replace function jobforge.state_problem(p_tenant_id uuid, p_job_id uuid) returns text
language sql stable
as $$
  select coalesce((select 'JF008:job_' || f.status from jobforge.find_job(p_tenant_id, p_job_id) as f limit 1), 'JF007:job_unknown')
$$;
comment on function jobforge.state_problem(uuid, uuid) is
  'Why nothing was done to a job that is not in the state for it: the state it is in, or that it is unknown.';

create or replace function jobforge.revive(p_job jobforge.jobs, p_payload jsonb, p_max_attempts integer, p_now timestamptz)
returns text
language plpgsql volatile
as $$
begin
  -- A subtransaction only for those that need one: thousands of them in a transaction burden everybody's snapshots.
  if p_job.dedupe_key is null then
    perform jobforge.put_back(p_job, p_payload, p_max_attempts, p_now);
    return null;
  end if;
  begin
    perform jobforge.put_back(p_job, p_payload, p_max_attempts, p_now);
    return null;
  exception when unique_violation then
    -- A twin that was being enqueued while a look saw none.
    return 'JF008:dedupe_twin_alive';
  end;
end
$$;
comment on function jobforge.revive(jobforge.jobs, jsonb, integer, timestamptz) is
  'Makes a waiting job or dead letter due now; tells of a twin that came first.';

create or replace function jobforge.put_back(p_job jobforge.jobs, p_payload jsonb, p_max_attempts integer, p_now timestamptz)
returns void
language plpgsql volatile
as $$
declare
  v_waited boolean := p_job.status = 'queued';
begin
  -- The failures start anew; the fence, which numbers the attempts, never does. The last error stays to be read.
  update jobforge.jobs j
  set status = 'queued', ready = true, run_at = p_now, finished_at = null, payload = coalesce(p_payload, j.payload),
    max_attempts = coalesce(p_max_attempts, j.max_attempts),
    failures = case when v_waited then j.failures else 0 end, deaths = case when v_waited then j.deaths else 0 end
  where j.tenant_id = p_job.tenant_id and j.id = p_job.id;
end
$$;
comment on function jobforge.put_back(jobforge.jobs, jsonb, integer, timestamptz) is
  'The change of row behind revive: due now, a dead letter''s failures and deaths forgotten; a null payload stays.';

create or replace function jobforge.revival_problem(p_job jobforge.jobs, p_room integer) returns text
language sql stable
as $$
  -- A dead letter comes back on the terms of an enqueue; what waits already keeps its place on any terms.
  select case
    when p_job.finished_at is null then null
    when d.key is null then 'JF002:unknown_definition'
    when not d.is_active then 'JF002:inactive_definition'
    when p_job.dedupe_key is not null and exists (
      select from jobforge.jobs t
      where t.tenant_id = p_job.tenant_id and t.dedupe_key = p_job.dedupe_key and t.finished_at is null)
      then 'JF008:dedupe_twin_alive'
    when p_room <= 0 then 'JF005:max_pending'
  end
  from (values (1)) as one(row) left join jobforge.definitions d on d.key = p_job.type
$$;
comment on function jobforge.revival_problem(jobforge.jobs, integer) is
  'Why a dead letter may not go back to work (code:reason): its type is switched off, a living job has its dedupe key, or p_room '
  'says that no more may wait.';

create or replace function jobforge.room_to_wait(p_tenant_id uuid, p_now timestamptz) returns integer
language sql volatile
as $$
  select jobforge.pending_room(p_tenant_id, t.max_pending, p_now) from jobforge.tenants t
  where t.id = p_tenant_id and t.max_pending is not null
$$;
comment on function jobforge.room_to_wait(uuid, timestamptz) is 'How many more jobs of the tenant may wait; null where nothing says.';

create or replace function jobforge.close_redrive(p_tenant_id uuid, p_operation_id uuid, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_operation jobforge.bulk_operations;
begin
  update jobforge.bulk_operations o set done = r.done, skipped = r.total - r.done, matched = r.total
  from (select count(*) filter (where b.verdict = 'redriven') as done, count(*) as total from jobforge.bulk_results b
        where b.tenant_id = p_tenant_id and b.operation_id = p_operation_id) as r
  where o.tenant_id = p_tenant_id and o.id = p_operation_id
  returning o.* into v_operation;
  perform jobforge.audit_bulk(v_operation, 'redrive', p_now);
end
$$;
comment on function jobforge.close_redrive(uuid, uuid, timestamptz) is 'Writes down what a redrive in one call came to.';
