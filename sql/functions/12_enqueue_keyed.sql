-- owner: jf_fn
-- Keyed enqueues: rows with an idempotency key, a dedupe key or a client's id, one by one in key order.

create or replace function jobforge.enqueue_keyed(
  p_tenant_id uuid, p_types text[], p_payloads jsonb[], p_queues text[], p_priorities integer[], p_run_ats timestamptz[],
  p_idempotency_keys text[], p_dedupe_keys text[], p_ids uuid[], p_max_attempts integer[], p_correlation_ids text[],
  p_traceparents text[], p_tags jsonb[], p_sources text[], p_source_refs text[], p_created_by text,
  p_concurrency_keys text[], p_room integer, p_retention text)
returns table (at integer, id uuid, status text, existing boolean, run_at timestamptz, error_code text, error_reason text)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
  v_now timestamptz := jobforge.clock();
  v_base bigint := jobforge.id_base(v_now);
  v_tail text := jobforge.id_tail();
  v_operator boolean := pg_has_role(session_user, 'jf_operator', 'member');
  v_row record;
  v_id uuid;
  v_kept record;
  v_twin record;
  v_taken uuid[];
  v_refused boolean;
  v_tries integer;
begin
  -- Keys tell only of ids that clients gave: one of these may be a job's to which JobForge gave it, or whose key is gone.
  if p_ids is not null then
    v_taken := jobforge.taken_ids(p_tenant_id, p_ids, v_now);
  end if;
  -- Key order in every caller: two batches with the same keys wait for each other, they do not deadlock. Dedupe keys
  -- come first, because they hold across types. Only batches that pair the same keys differently may deadlock: Postgres then
  -- ends one of them (40P01), which kept nothing and can come again.
  for v_row in
    select c.*, coalesce(c.given_id, jobforge.make_id(v_base, v_tail, c.at)) as new_id,
      sha256(convert_to(c.type || ' ' || c.payload::text, 'UTF8')) as payload_hash
    from jobforge.check_jobs(v_now, v_operator, p_types, p_payloads, p_queues, p_priorities, p_run_ats, p_idempotency_keys,
      p_dedupe_keys, p_ids, p_max_attempts, p_correlation_ids, p_traceparents, p_tags, p_sources, p_source_refs,
      p_concurrency_keys, p_room, p_retention) as c
    order by c.dedupe_key, c.type, c.idempotency_key, c.given_id, c.at
  loop
    at := v_row.at; id := null; status := null; existing := false; run_at := v_row.run_at;
    error_code := split_part(v_row.problem, ':', 1); error_reason := split_part(v_row.problem, ':', 2);
    -- A caller who comes again is answered though nobody new is let in.
    if v_row.problem in ('JF005:max_pending', 'JF002:inactive_definition') and jobforge.is_known(p_tenant_id, v_row.type,
        v_row.idempotency_key, v_row.given_id, case when v_row.problem like 'JF005%' then v_row.dedupe_key end) then
      error_code := ''; error_reason := '';
    elsif v_row.problem is not null then
      return next;
      continue;
    end if;

    -- The first caller's key stays; this insert waits for a racing transaction with the same key to end.
    select k.kept, k.job_id, k.same into v_kept
    from jobforge.keep_key(p_tenant_id, v_row.type, v_row.idempotency_key, v_row.given_id, v_row.new_id, v_row.payload_hash,
      v_now) as k;
    if not v_kept.kept then
      existing := true;
      if not v_kept.same then
        existing := false; error_code := 'JF004'; error_reason := 'key_reused_with_other_payload';
      else
        id := v_kept.job_id;
        select j.status, j.run_at into status, run_at
        from jobforge.find_job(p_tenant_id, v_kept.job_id) as j;
      end if;
      return next;
      continue;
    end if;

    v_id := null; v_tries := 0;
    v_refused := v_row.given_id = any (v_taken);
    while v_id is null loop
      if v_refused then
        delete from jobforge.idempotency_keys k
        where k.tenant_id = p_tenant_id and (k.type, k.key) in ((v_row.type, v_row.idempotency_key), ('#id', v_row.given_id::text));
        error_code := 'JF004'; error_reason := 'id_taken';
        exit;
      end if;
      insert into jobforge.jobs as j (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention,
        queue, type, payload, dedupe_key, correlation_id, traceparent, tags, source, source_ref, created_by,
        concurrency_key, keyed)
      values (p_tenant_id, v_row.new_id, v_row.run_at, v_now, v_row.max_attempts, v_row.priority, v_row.run_at <= v_now,
        'queued', v_row.retention, v_row.queue, v_row.type, v_row.payload, v_row.dedupe_key, v_row.correlation_id,
        v_row.traceparent, v_row.tags, v_row.source, v_row.source_ref, p_created_by,
        v_row.concurrency_key, v_row.concurrency_key is not null)
      on conflict do nothing
      returning j.id into v_id;
      exit when v_id is not null;
      -- A job that was not committed when the ids were looked up.
      v_refused := exists (select from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = v_row.given_id);
      continue when v_refused;
      -- The living twin is the answer; if it ended in between, the insert is tried again.
      select j.id, j.status, j.run_at into v_twin from jobforge.jobs j
      where j.tenant_id = p_tenant_id and j.dedupe_key = v_row.dedupe_key and j.finished_at is null;
      if v_twin.id is not null then
        update jobforge.idempotency_keys k set job_id = v_twin.id
        where k.tenant_id = p_tenant_id and k.job_id = v_row.new_id
          and (k.type, k.key) in ((v_row.type, v_row.idempotency_key), ('#id', v_row.given_id::text));
        existing := true; v_id := v_twin.id; run_at := v_twin.run_at; status := v_twin.status;
      end if;
      v_tries := v_tries + 1;
      if v_id is null and v_tries > 100 then
        raise exception 'enqueue: what is in the way of job % cannot be seen', v_row.new_id using errcode = '40001';
      end if;
    end loop;
    id := v_id;
    status := case when id is not null then coalesce(status, 'queued') end;
    return next;
  end loop;
end
$$;
comment on function jobforge.enqueue_keyed(uuid, text[], jsonb[], text[], integer[], timestamptz[], text[], text[], uuid[],
  integer[], text[], text[], jsonb[], text[], text[], text, text[], integer, text) is
  'The keyed half of enqueue_jobs: keeps keys, finds living twins; called by it alone.';

create or replace function jobforge.keep_key(
  p_tenant_id uuid, p_type text, p_key text, p_given_id uuid, p_job_id uuid, p_payload_hash bytea, p_now timestamptz,
  out kept boolean, out job_id uuid, out same boolean)
language plpgsql volatile
as $$
declare
  v_type text;
  v_key text;
begin
  kept := true; same := true; job_id := p_job_id;
  -- A client's id is a key of its own: (tenant_id, id) cannot be unique across the history's partitions.
  for v_type, v_key in
    select t, k from (values (1, p_type, p_key), (2, '#id', p_given_id::text)) as v(n, t, k) where k is not null order by n
  loop
    insert into jobforge.idempotency_keys as i (tenant_id, type, key, job_id, payload_hash, created_at)
    values (p_tenant_id, v_type, v_key, p_job_id, p_payload_hash, p_now)
    on conflict do nothing;
    if not found then
      -- A second statement, to see what the winner committed. Under REPEATABLE READ it cannot be seen.
      select false, i.job_id, i.payload_hash = p_payload_hash into kept, job_id, same
      from jobforge.idempotency_keys i
      where i.tenant_id = p_tenant_id and i.type = v_type and i.key = v_key;
      if kept is null then
        raise exception 'the winner of key % is not visible to this snapshot', v_key using errcode = '40001';
      end if;
      -- A caller's key that was kept a moment ago must not name a job that will never be: it stands for the one it is answered with.
      if v_type = '#id' and same then
        update jobforge.idempotency_keys i set job_id = keep_key.job_id
        where i.tenant_id = p_tenant_id and i.type = p_type and i.key = p_key;
      elsif v_type = '#id' then
        delete from jobforge.idempotency_keys i where i.tenant_id = p_tenant_id and i.type = p_type and i.key = p_key;
      end if;
      return;
    end if;
  end loop;
end
$$;
comment on function jobforge.keep_key(uuid, text, text, uuid, uuid, bytea, timestamptz) is
  'Keeps a caller''s key and a client''s id for this job, or tells whose they are and whether the payload was the same.';

drop function if exists jobforge.is_taken(uuid, uuid, timestamptz);
create or replace function jobforge.taken_ids(p_tenant_id uuid, p_ids uuid[], p_now timestamptz) returns uuid[]
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
declare
  -- A client's id is of within a day, so its job was made within two and ended after that. Reckoned before: only what is
  -- planned with a time that stands leaves the other partitions unopened and unlocked.
  v_since constant timestamptz := p_now - interval '2 days';
  v_until constant timestamptz := p_now + interval '1 hour';
begin
  -- One statement, since a job goes from one table to the other in one transaction. An id at a time, by both columns of the
  -- index: of all of them together a plan may only filter what the tenant has.
  return array(
    select u.id from unnest(p_ids) as u(id)
    where coalesce(
      (select true from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = u.id limit 1),
      (select true from jobforge.job_history h
       where h.tenant_id = p_tenant_id and h.id = u.id and h.finished_at >= v_since and h.finished_at < v_until limit 1)));
end
$$;
comment on function jobforge.taken_ids(uuid, uuid[], timestamptz) is
  'Those of these ids that a job has, live or over, as far as a client''s id may be one; called under the tenant.';

create or replace function jobforge.is_known(
  p_tenant_id uuid, p_type text, p_key text, p_given_id uuid, p_dedupe_key text) returns boolean
language sql stable
as $$
  select exists (select from jobforge.idempotency_keys i
                 where i.tenant_id = p_tenant_id and (i.type, i.key) in ((p_type, p_key), ('#id', p_given_id::text)))
    or exists (select from jobforge.jobs j
               where j.tenant_id = p_tenant_id and j.dedupe_key = p_dedupe_key and j.finished_at is null)
$$;
comment on function jobforge.is_known(uuid, text, text, uuid, text) is
  'Whether an enqueue would be answered with a job that exists; called under the tenant.';
