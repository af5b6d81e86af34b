-- owner: jf_sys
-- Old operations go: longer kept than any job they are about.

create or replace function jobforge.prune_bulks(p_now timestamptz, p_limit integer) returns integer
language plpgsql volatile
as $$
declare
  v_operation record;
  v_results integer;
  v_pruned integer := 0;
begin
  for v_operation in
    select o.tenant_id, o.id from jobforge.bulk_operations o where o.started_at < p_now - interval '400 days'
    order by o.started_at limit 10 for update skip locked
  loop
    delete from jobforge.bulk_results r where r.ctid = any (array(
      select x.ctid from jobforge.bulk_results x
      where x.tenant_id = v_operation.tenant_id and x.operation_id = v_operation.id limit p_limit));
    get diagnostics v_results = row_count;
    if v_results < p_limit then
      delete from jobforge.bulk_operations o where o.tenant_id = v_operation.tenant_id and o.id = v_operation.id;
      v_pruned := v_pruned + 1;
    end if;
  end loop;
  return v_pruned;
end
$$;
comment on function jobforge.prune_bulks(timestamptz, integer) is
  'Deletes operations of more than 400 days ago, their results first, in bounded batches.';
