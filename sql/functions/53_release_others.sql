-- owner: jf_sys
-- What a worker never heard of, because the answer of its claim was lost, goes back while its lease goes on.

create or replace function jobforge.release_others(
  p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_mergejoin = off set enable_seqscan = off
set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '100ms'
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_tenant_ids uuid[];
  v_job_ids uuid[];
  v_back record;
begin
  perform jobforge.require_listed(p_tenant_ids, p_job_ids, p_fences);
  -- Whom a list leaves out goes back: one with holes would give jobs away that run.
  if coalesce(cardinality(p_job_ids), 0) = 0 or greatest(array_ndims(p_job_ids), array_ndims(p_tenant_ids), array_ndims(p_fences)) > 1
      or array_position(p_job_ids, null) is not null or array_position(p_tenant_ids, null) is not null
      or array_position(p_fences, null) is not null then
    perform jobforge.refuse('JF001', 'jobs_missing', 'all jobs that are kept are listed, each with its tenant and fence');
  end if;
  if not jobforge.lease_lives(p_lease_id, v_now) then
    perform jobforge.refuse('JF006', 'lease_lost', format('lease %s is lost', p_lease_id));
  end if;
  -- A claim that is still putting jobs on it ends first, and is seen below.
  perform from jobforge.leases l where l.id = p_lease_id for update;
  select array_agg(u.tenant_id order by u.at), array_agg(u.id order by u.at) into v_tenant_ids, v_job_ids
  from jobforge.held_jobs(p_lease_id) as h
  cross join lateral unnest(h.tenant_ids, h.job_ids) with ordinality as u(tenant_id, id, at)
  -- OFFSET 0 keeps it one look-up a job: a plan made while the table was small would walk all of it.
  cross join lateral (select j.fence from jobforge.jobs j where j.tenant_id = u.tenant_id and j.id = u.id offset 0) as j
  where not exists (select from unnest(p_tenant_ids, p_job_ids, p_fences) as k(tenant_id, id, fence)
                    where k.id = u.id and k.tenant_id = u.tenant_id and k.fence = j.fence);
  v_back := jobforge.hand_back(p_lease_id, coalesce(v_tenant_ids, '{}'), coalesce(v_job_ids, '{}'), v_now);
  perform jobforge.look_behind(v_back.queues, v_back.run_ats);
  return coalesce(v_back.requeued, 0);
end
$$;
comment on function jobforge.release_others(uuid, uuid[], uuid[], integer[]) is
  'Gives back free what a living lease holds beside the listed jobs, and tells how many: a worker lists all that it knows, after a '
  'claim whose answer did not come.';
grant execute on function jobforge.release_others(uuid, uuid[], uuid[], integer[]) to jf_worker;
