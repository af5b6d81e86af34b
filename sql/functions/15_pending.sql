-- owner: jf_sys
-- How many more jobs of a tenant may wait. A soft limit: no counter is locked until an application commits.

create or replace function jobforge.pending_room(p_tenant_id uuid, p_max_pending integer, p_now timestamptz) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_known record;
  v_pending bigint;
begin
  -- A small limit is counted each time: what overshoots it are transactions that are open at once. A large one is counted
  -- once a second: it overshoots by what arrives in that second, too.
  if p_max_pending > 1000 then
    select c.pending, c.counted_at into v_known from jobforge.pending_counts c where c.tenant_id = p_tenant_id;
    if v_known.counted_at > p_now - interval '1 second' then
      return greatest(p_max_pending - v_known.pending, 0);
    end if;
  end if;
  -- The newest first: what waits is there, while dead letters and running jobs are mostly older.
  select count(*) into v_pending
  from (
    select j.lease_id, j.finished_at from jobforge.jobs j where j.tenant_id = p_tenant_id
    order by j.id desc limit 2::bigint * p_max_pending + 10000) as j
  where j.lease_id is null and j.finished_at is null;
  -- Who has an application's transaction around it must not hold the others up: they count for themselves.
  if p_max_pending > 1000 and pg_try_advisory_xact_lock(hashtextextended('jobforge pending ' || p_tenant_id, 0)) then
    insert into jobforge.pending_counts as c (tenant_id, pending, counted_at) values (p_tenant_id, v_pending, p_now)
    on conflict (tenant_id) do update set pending = excluded.pending, counted_at = excluded.counted_at;
  end if;
  return greatest(p_max_pending - v_pending, 0);
end
$$;
comment on function jobforge.pending_room(uuid, integer, timestamptz) is
  'How many more jobs of the tenant may wait, counted exactly up to a limit of 1,000, beyond it as of the last second.';
grant execute on function jobforge.pending_room(uuid, integer, timestamptz) to jf_fn;
