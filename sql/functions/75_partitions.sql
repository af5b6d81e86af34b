-- owner: jf_owner
-- The history's partitions: made ahead, dropped whole. The one place with dynamic SQL.

create or replace function jobforge.upkeep_partitions(p_term bigint, p_limit integer default 100)
returns table (made integer, dropped integer, refused integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
  v_leaf record;
  v_busy text[] := '{}';
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  select m.made, m.refused into made, refused from jobforge.make_partitions(p_limit) as m;
  dropped := 0;
  for v_leaf in select * from jobforge.expired_partitions(jobforge.clock())
  loop
    exit when dropped >= p_limit;
    -- The lock that was refused is mostly the parent's. To ask again for its next partition would hold up completions once
    -- more; and those of other parents must not wait for it.
    if v_leaf.parent = any (v_busy) then
      refused := refused + 1;
      continue;
    end if;
    begin
      execute format('drop table jobforge.%I', v_leaf.leaf);
      dropped := dropped + 1;
    exception when lock_not_available then
      refused := refused + 1;
      v_busy := v_busy || v_leaf.parent;
    end;
  end loop;
  return next;
end
$$;
comment on function jobforge.upkeep_partitions(bigint, integer) is
  'Makes the history''s partitions 14 days ahead and drops those past their class''s time, waiting 50 ms at most for a lock.';
grant execute on function jobforge.upkeep_partitions(bigint, integer) to jf_operator;

create or replace function jobforge.make_partitions(p_limit integer, out made integer, out refused integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
  v_leaf record;
begin
  made := 0; refused := 0;
  for v_leaf in select * from jobforge.wanted_partitions(jobforge.clock()) as w
      where to_regclass('jobforge.' || w.leaf) is null limit p_limit
  loop
    begin
      -- Made apart and attached: the parent is never locked against completions.
      execute format('create table jobforge.%I (like jobforge.%I including all)', v_leaf.leaf, v_leaf.parent);
      execute format('alter table jobforge.%I enable row level security, force row level security', v_leaf.leaf);
      execute format('alter table jobforge.%I attach partition jobforge.%I for values from (%L) to (%L)',
        v_leaf.parent, v_leaf.leaf, v_leaf.first, v_leaf.past);
      made := made + 1;
    exception when lock_not_available or check_violation then
      refused := refused + 1; -- the next round tries again; the default partition takes the rows meanwhile
    end;
  end loop;
end
$$;
comment on function jobforge.make_partitions(integer) is
  'Makes the partitions that are missing; called by the upkeep and, before any leader is there, by the migration.';

create or replace function jobforge.wanted_partitions(p_now timestamptz)
returns table (parent text, leaf text, first timestamptz, past timestamptz)
language sql stable
as $$
  -- Reckoned without a time zone: a day of the session's own may have 23 or 25 hours.
  select t.name || '_' || c.class, t.name || '_' || c.class || '_' || to_char(g.first, 'YYYYMMDD'),
    g.first at time zone 'UTC', (g.first + c.step) at time zone 'UTC'
  from (values ('job_history'), ('attempt_history'), ('log_history'), ('exit_history')) as t(name)
  cross join jobforge.retention_classes() as c
  cross join lateral generate_series(date_trunc(c.unit, p_now at time zone 'UTC'),
    (p_now at time zone 'UTC') + interval '14 days', c.step) as g(first)
$$;
comment on function jobforge.wanted_partitions(timestamptz) is 'The partitions that should exist, from now to 14 days ahead.';
grant execute on function jobforge.wanted_partitions(timestamptz) to jf_sys;

create or replace function jobforge.expired_partitions(p_now timestamptz)
returns table (parent text, leaf text)
language sql stable
as $$
  select t.name || '_' || c.class, p.relname::text
  from (values ('job_history'), ('attempt_history'), ('log_history'), ('exit_history')) as t(name)
  cross join jobforge.retention_classes() as c
  join pg_inherits i on i.inhparent = to_regclass('jobforge.' || t.name || '_' || c.class)
  join pg_class p on p.oid = i.inhrelid
  where p.relname ~ '_[0-9]{8}$'
    and to_date(right(p.relname, 8), 'YYYYMMDD') + c.step + c.life < p_now at time zone 'UTC'
  order by right(p.relname, 8), 1
$$;
comment on function jobforge.expired_partitions(timestamptz) is
  'The partitions whose youngest row is past its class''s time, the oldest first.';
