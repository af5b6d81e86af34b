-- owner: jf_sys
-- The artifact store's objects: who holds them, and how those that nobody holds are collected.
--
-- An object is deleted in three steps: doomed here, deleted in the store, confirmed here. Whoever writes the same content
-- announces it first, and is refused while it is doomed: so no object is written that a deletion under way would take. A
-- collector sends no deletion later than half a minute after the doom, and after a minute the content may be announced again
-- though nobody confirmed.

create or replace function jobforge.hold_result(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_ref text, p_bytes bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set lock_timeout = '100ms'
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.hold_job(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  perform jobforge.keep_artifact(p_tenant_id, p_ref, v_now);
  perform jobforge.hold_artifact(p_tenant_id, p_job_id, 'result', p_ref, p_bytes, v_now);
end
$$;
comment on function jobforge.hold_result(uuid, uuid, uuid, integer, text, bigint) is
  'Lets a running job hold the object that its result is about to be written to, instead of that of an earlier attempt; a stale '
  'lease or fence is refused.';
grant execute on function jobforge.hold_result(uuid, uuid, uuid, integer, text, bigint) to jf_worker;

create or replace function jobforge.collect_artifacts(p_term bigint, p_limit integer default 100)
returns table (tenant_id uuid, ref text, doomed_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := jobforge.clock();
  v_row record;
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  -- An enqueue that is attaching one holds its row: it is passed by.
  for v_row in
    select a.tenant_id, a.ref from jobforge.artifacts a where a.collect_at <= v_now
    order by a.collect_at limit p_limit for update skip locked
  loop
    -- Asked after the lock, in a snapshot of its own: whoever attached it before is seen, whoever comes later waits.
    if exists (select from jobforge.job_artifacts h where h.tenant_id = v_row.tenant_id and h.ref = v_row.ref) then
      update jobforge.artifacts a set collect_at = null, doomed_at = null
      where a.tenant_id = v_row.tenant_id and a.ref = v_row.ref;
    else
      -- Handed out again if nobody confirms: the store was away, or the collector died.
      update jobforge.artifacts a set doomed_at = v_now, collect_at = v_now + interval '5 minutes'
      where a.tenant_id = v_row.tenant_id and a.ref = v_row.ref;
      tenant_id := v_row.tenant_id; ref := v_row.ref; doomed_at := v_now;
      return next;
    end if;
  end loop;
end
$$;
comment on function jobforge.collect_artifacts(bigint, integer) is
  'Looks at up to p_limit objects that may be held by nobody and dooms those that are not; the caller deletes them in the store at '
  'once and confirms.';
grant execute on function jobforge.collect_artifacts(bigint, integer) to jf_operator;

create or replace function jobforge.confirm_artifacts(
  p_term bigint, p_tenant_ids uuid[], p_refs text[], p_doomed_at timestamptz) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
  v_gone integer;
begin
  perform jobforge.require_columns(cardinality(p_refs), coalesce(cardinality(p_tenant_ids), 0));
  perform jobforge.require_term(p_term);
  -- Only as it was doomed: what was announced again since is somebody's.
  delete from jobforge.artifacts a using unnest(p_tenant_ids, p_refs) as r(tenant_id, ref)
  where a.tenant_id = r.tenant_id and a.ref = r.ref and a.doomed_at = p_doomed_at;
  get diagnostics v_gone = row_count;
  return v_gone;
end
$$;
comment on function jobforge.confirm_artifacts(bigint, uuid[], text[], timestamptz) is
  'Forgets objects that were deleted in the store, as collect_artifacts doomed them at this time; tells how many.';
grant execute on function jobforge.confirm_artifacts(bigint, uuid[], text[], timestamptz) to jf_operator;

create or replace function jobforge.keep_artifact(p_tenant_id uuid, p_ref text, p_now timestamptz) returns void
language plpgsql volatile
as $$
begin
  if p_ref is null or p_ref !~ '^sha256:[0-9a-f]{64}$' then
    perform jobforge.refuse('JF001', 'ref_malformed', 'p_ref must be sha256: and 64 digits of lower-case hex');
  end if;
  insert into jobforge.artifacts as a (tenant_id, ref, announced_at, collect_at)
  values (p_tenant_id, p_ref, p_now, p_now + interval '1 day')
  on conflict (tenant_id, ref) do update
  set announced_at = excluded.announced_at, collect_at = excluded.collect_at, doomed_at = null
  where a.doomed_at is null or a.doomed_at < p_now - interval '1 minute';
  if not found then
    perform jobforge.refuse('JF008', 'artifact_leaving', format('object %s is being deleted; try again in a moment', p_ref));
  end if;
end
$$;
comment on function jobforge.keep_artifact(uuid, text, timestamptz) is
  'Notes that an object may be in the store and is left alone for a day; refuses one that a collector is deleting.';
grant execute on function jobforge.keep_artifact(uuid, text, timestamptz) to jf_fn;

create or replace function jobforge.hold_artifact(
  p_tenant_id uuid, p_job_id uuid, p_kind text, p_ref text, p_bytes bigint, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_doomed boolean;
  v_before text;
begin
  if p_bytes is null or p_bytes not between 1 and 1073741824 then
    perform jobforge.refuse('JF001', 'bytes_out_of_range', 'p_bytes must be 1 to 1073741824');
  end if;
  -- Shared with others who attach the same content; a collector stays away until this transaction ends.
  select a.doomed_at is not null into v_doomed from jobforge.artifacts a
  where a.tenant_id = p_tenant_id and a.ref = p_ref for key share;
  if v_doomed is null then
    perform jobforge.refuse('JF007', 'artifact_unknown', format('object %s was not announced', p_ref));
  elsif v_doomed then
    perform jobforge.refuse('JF008', 'artifact_leaving', format('object %s is being deleted; announce and write it again', p_ref));
  end if;
  select h.ref into v_before from jobforge.job_artifacts h
  where h.tenant_id = p_tenant_id and h.job_id = p_job_id and h.kind = p_kind;
  insert into jobforge.job_artifacts (tenant_id, job_id, kind, ref, bytes, created_at)
  values (p_tenant_id, p_job_id, p_kind, p_ref, p_bytes, p_now)
  on conflict (tenant_id, job_id, kind) do update
  set ref = excluded.ref, bytes = excluded.bytes, created_at = excluded.created_at;
  if v_before <> p_ref then
    perform jobforge.release_artifact(p_tenant_id, v_before, p_now);
  end if;
end
$$;
comment on function jobforge.hold_artifact(uuid, uuid, text, text, bigint, timestamptz) is
  'Lets a job, whose row the caller has locked, hold an object instead of the one before; refuses one that was not announced or '
  'is being deleted.';
grant execute on function jobforge.hold_artifact(uuid, uuid, text, text, bigint, timestamptz) to jf_fn;

create or replace function jobforge.artifact_payload(p_ref text, p_bytes bigint) returns jsonb
language sql immutable
as $$ select jsonb_build_object('$artifact', jsonb_build_object('ref', p_ref, 'bytes', p_bytes)) $$;
comment on function jobforge.artifact_payload(text, bigint) is 'What stands in a row in the place of a payload or result in the artifact store.';
grant execute on function jobforge.artifact_payload(text, bigint) to jf_fn;

create or replace function jobforge.release_artifact(p_tenant_id uuid, p_ref text, p_now timestamptz) returns void
language sql volatile
as $$
  -- Others may hold it: the collector asks. A day from its last announcement, because somebody may be about to attach it.
  update jobforge.artifacts a set collect_at = greatest(p_now, a.announced_at + interval '1 day')
  where a.tenant_id = p_tenant_id and a.ref = p_ref and a.doomed_at is null
$$;
comment on function jobforge.release_artifact(uuid, text, timestamptz) is
  'Has the collector look at an object that a job no longer holds.';
grant execute on function jobforge.release_artifact(uuid, text, timestamptz) to jf_fn;

create or replace function jobforge.drop_artifacts(p_tenant_id uuid, p_job_id uuid) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_ref text;
  v_dropped integer := 0;
begin
  for v_ref in
    delete from jobforge.job_artifacts h
    where h.tenant_id = p_tenant_id and h.job_id = p_job_id and h.job_finished_at is null returning h.ref
  loop
    perform jobforge.release_artifact(p_tenant_id, v_ref, v_now);
    v_dropped := v_dropped + 1;
  end loop;
  return v_dropped;
end
$$;
comment on function jobforge.drop_artifacts(uuid, uuid) is
  'Lets go of the objects of a job that is gone and never came into the history; tells how many.';

create or replace function jobforge.prune_artifacts(p_now timestamptz, p_limit integer) returns integer
language plpgsql volatile
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_class record;
  v_row record;
  v_gone integer;
  v_most integer := 0;
begin
  for v_class in select c.class, c.life from jobforge.retention_classes() as c loop
    v_gone := 0;
    for v_row in
      delete from jobforge.job_artifacts h
      where h.ctid = any (array(
        select o.ctid from jobforge.job_artifacts o
        where o.retention = v_class.class and o.job_finished_at < p_now - v_class.life
        order by o.job_finished_at limit p_limit))
        -- By class and time, and so in the one partition where the job is, if it is.
        and not exists (select from jobforge.job_history j where j.retention = h.retention
                        and j.finished_at = h.job_finished_at and j.tenant_id = h.tenant_id and j.id = h.job_id)
      returning h.tenant_id, h.ref
    loop
      perform jobforge.release_artifact(v_row.tenant_id, v_row.ref, p_now);
      v_gone := v_gone + 1;
    end loop;
    v_most := greatest(v_most, v_gone);
  end loop;
  return v_most;
end
$$;
comment on function jobforge.prune_artifacts(timestamptz, integer) is
  'Lets go of the objects of jobs that left the history, looking at p_limit of each class, the oldest first; tells the most it '
  'found of one class.';
