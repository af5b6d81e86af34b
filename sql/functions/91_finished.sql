-- owner: jf_sys
-- Which jobs are over: for a server that waits for many jobs of many tenants at once, each for a caller of that tenant.

create or replace function jobforge.finished_jobs(p_tenant_ids uuid[], p_job_ids uuid[])
returns table (tenant_id uuid, id uuid, status text, finished_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_bound uuid := jobforge.login_tenant();
begin
  perform jobforge.require_columns(cardinality(p_job_ids), coalesce(cardinality(p_tenant_ids), 0));
  return query
  -- A job that lives is looked for once; one that left is looked for in the history, where each partition is asked.
  select w.tenant_id, w.id, coalesce(j.status, h.status), coalesce(j.finished_at, h.finished_at)
  from (select distinct u.tenant_id, u.id from unnest(p_tenant_ids, p_job_ids) as u(tenant_id, id)
        where v_bound is null or u.tenant_id = v_bound) as w
  left join lateral (select l.status, l.finished_at from jobforge.jobs l
                     where l.tenant_id = w.tenant_id and l.id = w.id limit 1) as j on true
  left join lateral (select o.status, o.finished_at from jobforge.job_history o
                     where o.tenant_id = w.tenant_id and o.id = w.id and j.status is null limit 1) as h on true
  where j.finished_at is not null or h.status is not null;
end
$$;
comment on function jobforge.finished_jobs(uuid[], uuid[]) is
  'Those of these jobs (tenants and ids side by side) that are over: succeeded, canceled, failed or dead. What waits, runs or is not '
  'known is left out. Whoever calls answers each waiter for its own tenant only.';
grant execute on function jobforge.finished_jobs(uuid[], uuid[]) to jf_operator;
