-- owner: jf_fn
-- Plain enqueues: one job that needs no more than its definition, in one statement.

-- It answered with a record of two: looking up what such a record is made of took a thirtieth of the call. Only that one is
-- dropped: who calls the one that is there finds it at every moment.
do $$
begin
  if exists (select from pg_catalog.pg_proc p
             where p.oid = to_regprocedure('jobforge.enqueue_plain(uuid, text, jsonb, text)')
               and p.prorettype = 'record'::regtype) then
    drop function jobforge.enqueue_plain(uuid, text, jsonb, text);
  end if;
end
$$;
create or replace function jobforge.enqueue_plain(
  p_tenant_id uuid, p_type text, p_payload jsonb, p_created_by text default null)
returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
-- No other settings: each takes a fiftieth of the call. The small tables are scanned while they fit a page or two, and the plan
-- is made anew when statistics tell that they have grown.
declare
  v_now timestamptz := jobforge.clock();
  v_id uuid := jobforge.new_id(v_now);
begin
  -- Returning nothing: for rows that are returned, the policies of reading are asked too. All conditions hang on the
  -- definition's row: those that hung on nothing would have a node of the plan to themselves, and all its columns with it.
  insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention, queue, type,
    payload, source, created_by)
  select p_tenant_id, v_id, v_now, v_now, d.max_attempts, d.priority, true, 'queued', d.retention, d.queue, d.key, p_payload,
    'manual', p_created_by
  from jobforge.definitions d
  where d.key = p_type and case when d.is_active then
    jobforge.payload_problem(p_payload) is null
    and (p_created_by is null or length(p_created_by) <= 255)
    -- As it is usually written; a tenant written otherwise is compared by the batch form.
    and p_tenant_id::text = current_setting('app.tenant_id', true)
    and exists (select from jobforge.tenants t where t.id = p_tenant_id and t.max_pending is null and t.retention is null)
    and exists (select from jobforge.logins l where l.role_name = session_user
                and (l.tenant_id is null or l.tenant_id = p_tenant_id))
    and case when exists (select from jobforge.sleepers s
                          where s.expires_at > v_now and d.key = any (s.types) and d.queue = any (s.queues))
      then pg_notify('jobforge_wake', '') is not null else true end
  end;
  if not found then
    -- Whatever is wrong with it, the batch form finds and says. With a source it does not come back here.
    select e.id into v_id
    from jobforge.enqueue_job(p_tenant_id, p_type, p_payload, p_source => 'manual', p_created_by => p_created_by) as e;
  end if;
  return v_id;
end
$$;
comment on function jobforge.enqueue_plain(uuid, text, jsonb, text) is
  'Enqueues one job that asks for nothing but its definition''s defaults and says at most who made it: enqueue_job without its '
  'options. Answers with the id, in which the moment stands from which the job is due.';
grant execute on function jobforge.enqueue_plain(uuid, text, jsonb, text) to jf_tenant, jf_operator;
