-- owner: jf_sys
-- How jobs leave the live table for the history: by the places that a report names, or by their keys.

create or replace function jobforge.retire_at(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_results jsonb[], p_places tid[], p_now timestamptz)
returns integer[]
language plpgsql volatile
as $$
declare
  v_gone record;
  v_done integer[];
begin
  -- A result finds its row by its place among the others. In order, a place that is missing comes last.
  if p_results is not null and (p_places[cardinality(p_places)] is null
      or p_places <> array(select p from unnest(p_places) as p order by p)) then
    return '{}';
  end if;
  v_gone := jobforge.retire('succeeded', p_lease_id, p_places, p_results, null, p_now);
  if v_gone.job_ids = p_job_ids and v_gone.fences = p_fences and v_gone.tenant_ids = p_tenant_ids then
    return array(select generate_series(1, cardinality(p_job_ids)));
  end if;
  v_done := array(
    select r.at from unnest(p_places, p_tenant_ids, p_job_ids, p_fences) with ordinality as r(place, tenant_id, id, fence, at)
    where (r.place, r.tenant_id, r.id, r.fence) in (
      select * from unnest(v_gone.places, v_gone.tenant_ids, v_gone.job_ids, v_gone.fences)));
  if cardinality(v_done) is distinct from coalesce(cardinality(v_gone.job_ids), 0) then
    raise no_data_found;
  end if;
  return v_done;
exception
  -- Another job of this lease was at one of the places. As if nothing had been tried.
  when no_data_found then return '{}';
end
$$;
comment on function jobforge.retire_at(uuid, uuid[], uuid[], integer[], jsonb[], tid[], timestamptz) is
  'Moves the jobs of a report that are still at their places and as reported (id, fence, lease) into the history, and tells '
  'which rows; what somebody else has come to lie there stays.';

create or replace function jobforge.retire_by_key(
  p_status text, p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_results jsonb[], p_error text,
  p_now timestamptz)
returns integer[]
language plpgsql volatile
as $$
declare
  v_held record := jobforge.locate(p_lease_id, p_tenant_ids, p_job_ids, p_fences);
begin
  perform jobforge.retire(p_status, p_lease_id, v_held.places,
    case when p_results is not null then array(select p_results[a] from unnest(v_held.ats) as a) end, p_error, p_now);
  return coalesce(v_held.ats, '{}');
end
$$;
comment on function jobforge.retire_by_key(text, uuid, uuid[], uuid[], integer[], jsonb[], text, timestamptz) is
  'Moves the jobs that this lease still holds with these fences into the history; tells which rows.';
grant execute on function jobforge.retire_by_key(text, uuid, uuid[], uuid[], integer[], jsonb[], text, timestamptz) to jf_fn;

create or replace function jobforge.retire(
  p_status text, p_lease_id uuid, p_places tid[], p_results jsonb[], p_error text, p_now timestamptz,
  out places tid[], out tenant_ids uuid[], out job_ids uuid[], out fences integer[])
language plpgsql volatile
as $$
declare
  v_noted uuid[];
  v_noted_tenants uuid[];
begin
  with gone as (
    delete from jobforge.jobs j
    where j.ctid = any (p_places) and j.lease_id is not distinct from p_lease_id
    returning j.ctid as place, j.*
  ), kept as (
    insert into jobforge.job_history (tenant_id, id, run_at, created_at, started_at, finished_at, fence, failures, worker_no,
      deaths, max_attempts, priority, status, retention, queue, type, payload, result, dedupe_key, correlation_id,
      traceparent, tags, source, source_ref, created_by, parent_id, error, concurrency_key)
    select g.tenant_id, g.id, g.run_at, g.created_at, g.started_at, p_now, g.fence, g.failures, g.worker_no, g.deaths,
      g.max_attempts, g.priority, p_status, g.retention, g.queue, g.type, g.payload,
      case when p_results is not null then p_results[width_bucket(g.place, p_places)] end, g.dedupe_key,
      g.correlation_id, g.traceparent, g.tags, g.source, g.source_ref, g.created_by, g.parent_id, p_error,
      g.concurrency_key
    from gone g
  )
  select array_agg(g.place), array_agg(g.tenant_id), array_agg(g.id), array_agg(g.fence),
    array_agg(g.tenant_id) filter (where g.fence > 1 or g.noted or p_status = 'canceled'),
    array_agg(g.id) filter (where g.fence > 1 or g.noted or p_status = 'canceled')
  into places, tenant_ids, job_ids, fences, v_noted_tenants, v_noted from gone g;
  if v_noted is not null then
    perform jobforge.retire_notes(n.tenant_id, n.id, p_now) from unnest(v_noted_tenants, v_noted) as n(tenant_id, id);
  end if;
end
$$;
comment on function jobforge.retire(text, uuid, tid[], jsonb[], text, timestamptz) is
  'Moves the jobs at these places, in the order of which the results are, into the history, as far as this lease holds them, '
  'and tells which they were.';
grant execute on function jobforge.retire(text, uuid, tid[], jsonb[], text, timestamptz) to jf_fn;

create or replace function jobforge.lease_lives(p_lease_id uuid, p_now timestamptz) returns boolean
language plpgsql volatile
as $$
declare
  v_bound uuid := jobforge.login_tenant();
  v_lives boolean;
begin
  -- KEY SHARE: the reaper cannot take the lease away in the middle of a report, and the beat is not stopped by it.
  select l.expires_at > p_now and (v_bound is null or l.tenant_id = v_bound) into v_lives
  from jobforge.leases l where l.id = p_lease_id for key share;
  return coalesce(v_lives, false);
end
$$;
comment on function jobforge.lease_lives(uuid, timestamptz) is
  'Whether the lease is alive; if so it stays so for the reaper until this transaction ends.';

create or replace function jobforge.locate(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], out places tid[], out ats integer[])
language sql volatile
as $$
  -- Locked, in key order: a row that somebody is changing would move once more before its place is used.
  select array_agg(h.place order by h.place), array_agg(h.at order by h.place)
  from (
    select distinct on (w.ctid) w.ctid as place, r.at::integer
    from (select u.tenant_id, u.id, u.fence, u.at
          from unnest(p_tenant_ids, p_job_ids, p_fences) with ordinality as u(tenant_id, id, fence, at)
          order by u.tenant_id, u.id) as r
    cross join lateral (
      select j.ctid from jobforge.jobs j
      where j.tenant_id = r.tenant_id and j.id = r.id and j.lease_id is not distinct from p_lease_id
        and (p_fences is null or j.fence = r.fence) for update) as w
    order by w.ctid, r.at) as h
$$;
comment on function jobforge.locate(uuid, uuid[], uuid[], integer[]) is
  'Where the rows of these jobs are, by their key, as far as this lease holds them (with these fences, if any are given), and '
  'which of the jobs they are; they stay there until the transaction ends.';
grant execute on function jobforge.locate(uuid, uuid[], uuid[], integer[]) to jf_fn;
