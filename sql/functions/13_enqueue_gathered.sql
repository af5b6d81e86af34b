-- owner: jf_sys
-- Jobs that a server took in from many callers, of many tenants, in one statement: set up once for all of them.

create or replace function jobforge.enqueue_gathered(
  p_tenant_ids uuid[], p_types text[], p_payloads jsonb[], p_queues text[] default null, p_priorities integer[] default null,
  p_run_ats timestamptz[] default null, p_max_attempts integer[] default null, p_correlation_ids text[] default null,
  p_traceparents text[] default null, p_tags jsonb[] default null, p_sources text[] default null,
  p_source_refs text[] default null, p_concurrency_keys text[] default null, p_created_bys text[] default null)
returns table (at integer, id uuid, run_at timestamptz, error_code text, error_reason text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_base bigint := jobforge.id_base(v_now);
  v_tail text := jobforge.id_tail();
  v_rows integer := cardinality(p_types);
  v_done uuid[] := '{}';
begin
  -- Whoever acts for one tenant enqueues under it, where row-level security holds it there: a login that is bound, one that
  -- took another role, as PostgREST does for each request, and a transaction that named its tenant.
  if jobforge.login_tenant() is not null or current_setting('role') <> 'none'
      or nullif(current_setting('app.tenant_id', true), '') is not null then
    perform jobforge.refuse('JF009', 'login_bound',
      format('login %s acts for one tenant here and may not enqueue for many', session_user));
  end if;
  perform jobforge.require_columns(cardinality(p_types), cardinality(p_tenant_ids), cardinality(p_payloads),
    cardinality(p_queues), cardinality(p_priorities), cardinality(p_run_ats), cardinality(p_max_attempts),
    cardinality(p_correlation_ids), cardinality(p_traceparents), cardinality(p_tags), cardinality(p_sources),
    cardinality(p_source_refs), cardinality(p_concurrency_keys), cardinality(p_created_bys));
  -- Whose a row is stands at its place in the column.
  if array_ndims(p_tenant_ids) > 1 or array_lower(p_tenant_ids, 1) <> 1
      or array_ndims(p_created_bys) > 1 or array_lower(p_created_bys, 1) <> 1 then
    perform jobforge.refuse('JF001', 'columns_differ', 'the tenants and authors are no plain lists');
  end if;

  -- Most jobs are plain, as enqueue_plain has them: all of them in a statement that is set up in a third of the time.
  if coalesce(p_queues, p_correlation_ids, p_traceparents, p_sources, p_source_refs, p_concurrency_keys) is null
      and coalesce(p_priorities, p_max_attempts) is null and p_run_ats is null and p_tags is null then
    with inserted as (
      insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention, queue,
        type, payload, source, created_by)
      select t.id, jobforge.make_id(v_base, v_tail, u.at::integer), v_now, v_now, d.max_attempts, d.priority, true, 'queued',
        d.retention, d.queue, d.key, u.payload, 'manual', u.created_by
      from unnest(p_tenant_ids, p_types, p_payloads, p_created_bys) with ordinality
        as u(tenant_id, type, payload, created_by, at)
      join jobforge.tenants t on t.id = u.tenant_id and t.max_pending is null and t.retention is null
      join jobforge.definitions d on d.key = u.type and d.is_active
      where jobforge.payload_problem(u.payload) is null and (u.created_by is null or length(u.created_by) <= 255)
      returning jobs.id
    )
    select coalesce(array_agg(i.id), '{}') into v_done from inserted i;
  end if;

  if cardinality(v_done) = v_rows then
    return query
    select n, jobforge.make_id(v_base, v_tail, n), v_now, null::text, null::text from generate_series(1, v_rows) as n;
  else
    return query
    select * from jobforge.enqueue_rest(v_now, v_base, v_tail, v_done, p_tenant_ids, p_types, p_payloads, p_queues,
      p_priorities, p_run_ats, p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources, p_source_refs,
      p_concurrency_keys, p_created_bys);
  end if;

  perform jobforge.wake(p_types, p_queues, v_now);
end
$$;
comment on function jobforge.enqueue_gathered(uuid[], text[], jsonb[], text[], integer[], timestamptz[], integer[], text[],
  text[], jsonb[], text[], text[], text[], text[]) is
  'Enqueues jobs of many tenants, each row with its own, for a login bound to none; jobs with keys go the tenant''s own way.';
grant execute on function jobforge.enqueue_gathered(uuid[], text[], jsonb[], text[], integer[], timestamptz[], integer[],
  text[], text[], jsonb[], text[], text[], text[], text[]) to jf_tenant, jf_operator;

create or replace function jobforge.enqueue_rest(
  p_now timestamptz, p_base bigint, p_tail text, p_done uuid[], p_tenant_ids uuid[], p_types text[], p_payloads jsonb[],
  p_queues text[], p_priorities integer[], p_run_ats timestamptz[], p_max_attempts integer[], p_correlation_ids text[],
  p_traceparents text[], p_tags jsonb[], p_sources text[], p_source_refs text[], p_concurrency_keys text[],
  p_created_bys text[])
returns table (at integer, id uuid, run_at timestamptz, error_code text, error_reason text)
language plpgsql volatile
set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
  v_operator boolean := pg_has_role(session_user, 'jf_operator', 'member');
begin
  return query
  with owners as materialized (
    select t.id, t.retention,
      case when t.max_pending is not null then jobforge.pending_room(t.id, t.max_pending, p_now) end as room
    from jobforge.tenants t where t.id = any (p_tenant_ids)
  ), checked as materialized (
    select c.*, o.id as tenant_id, coalesce(o.retention, c.retention) as kept,
      jobforge.make_id(p_base, p_tail, c.at) as new_id,
      case
        when o.id is null then 'JF007:tenant_unknown'
        when c.problem is not null then c.problem
        when length(p_created_bys[c.at]) > 255 then 'JF001:created_by_length'
        when row_number() over (partition by o.id order by c.at) > o.room then 'JF005:max_pending'
      end as verdict
    from jobforge.check_jobs(p_now, v_operator, p_types, p_payloads, p_queues, p_priorities, p_run_ats, null, null, null,
      p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources, p_source_refs, p_concurrency_keys, null, null) as c
    left join owners o on o.id = p_tenant_ids[c.at]
    where jobforge.make_id(p_base, p_tail, c.at) <> all (p_done)
  ), inserted as (
    insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention, queue,
      type, payload, correlation_id, traceparent, tags, source, source_ref, created_by, concurrency_key, keyed)
    select c.tenant_id, c.new_id, c.run_at, p_now, c.max_attempts, c.priority, c.run_at <= p_now, 'queued', c.kept, c.queue,
      c.type, c.payload, c.correlation_id, c.traceparent, c.tags, c.source, c.source_ref, p_created_bys[c.at],
      c.concurrency_key, c.concurrency_key is not null
    from checked c where c.verdict is null
  )
  select c.at, case when c.verdict is null then c.new_id end, c.run_at, split_part(c.verdict, ':', 1),
    split_part(c.verdict, ':', 2)
  from checked c
  union all
  select n, jobforge.make_id(p_base, p_tail, n), p_now, null, null from generate_series(1, cardinality(p_types)) as n
  where jobforge.make_id(p_base, p_tail, n) = any (p_done);
end
$$;
comment on function jobforge.enqueue_rest(timestamptz, bigint, text, uuid[], uuid[], text[], jsonb[], text[], integer[],
  timestamptz[], integer[], text[], text[], jsonb[], text[], text[], text[], text[]) is
  'Enqueues what of a gathered batch is not there yet, each row with all its options and its own verdict; answers for all.';
