-- owner: jf_sys
-- What an operator's examination asks: who leads, which leases nobody took back, what limits and pauses hold back.
-- Everything here looks and changes nothing, and looks at no more rows than limits allow or a bound says, so that it may be
-- asked at any load.

create or replace function jobforge.list_stuck_leases(p_overdue interval default '30 seconds', p_limit integer default 100)
returns table (lease_id uuid, worker_id text, host text, expires_at timestamptz, jobs integer)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_age(p_overdue);
  return query
  select l.id, w.worker_id, w.host, e.at,
    (select coalesce(sum(cardinality(c.job_ids)), 0)::integer from jobforge.lease_claims c where c.lease_id = l.id)
  from jobforge.leases l left join jobforge.workers w on w.no = l.worker_no
  cross join lateral jobforge.ran_out_at(l.expires_at, l.beat_at, l.ttl_seconds) as e(at)
  where e.at < v_now - p_overdue
  order by e.at, l.id limit p_limit;
end
$$;
comment on function jobforge.list_stuck_leases(interval, integer) is
  'Leases that ran out longer than p_overdue ago and were not reaped, the longest first; jobs is how many they were given.';
grant execute on function jobforge.list_stuck_leases(interval, integer) to jf_operator;

create or replace function jobforge.list_stranded(p_limit integer default 100, p_budget_ms integer default 500)
returns table (tenant_id uuid, id uuid, type text, lease_id uuid, started_at timestamptz, complete boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform jobforge.require_limit(p_limit);
  if p_budget_ms is null or p_budget_ms not between 1 and 60000 then
    perform jobforge.refuse('JF001', 'budget_out_of_range', 'p_budget_ms must be 1 to 60000');
  end if;
  return query select s.tenant_id, s.id, s.type, s.lease_id, s.started_at, s.complete
  from jobforge.find_stranded(p_limit, p_budget_ms) as s;
end
$$;
comment on function jobforge.list_stranded(integer, integer) is
  'Jobs that run on a lease which is gone, so that nobody takes them back, as far as they are found within the budget. The last row '
  'has no id: it tells whether all jobs were looked at.';
grant execute on function jobforge.list_stranded(integer, integer) to jf_operator;

create or replace function jobforge.find_stranded(p_limit integer, p_budget_ms integer)
returns table (tenant_id uuid, id uuid, type text, lease_id uuid, started_at timestamptz, complete boolean)
language plpgsql stable
set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
  v_until constant timestamptz := clock_timestamp() + make_interval(secs => p_budget_ms / 1000.0);
  v_pages constant bigint := pg_relation_size('jobforge.jobs') / current_setting('block_size')::integer;
  -- No index tells what runs. Where the time is too short for all pages, each look begins elsewhere.
  v_first constant bigint := floor(random() * v_pages);
  v_read bigint := 0;
  v_from bigint;
  v_to bigint;
  v_left integer := p_limit;
  v_more integer;
begin
  while v_read < v_pages and v_left > 0 and (v_read = 0 or clock_timestamp() < v_until) loop
    v_from := (v_first + v_read) % v_pages;
    v_to := least(v_from + 500, v_pages, v_from + v_pages - v_read);
    return query
    select j.tenant_id, j.id, j.type, j.lease_id, j.started_at, null::boolean from jobforge.jobs j
    where j.ctid >= format('(%s,0)', v_from)::tid and j.ctid < format('(%s,0)', v_to)::tid
      and j.lease_id is not null and not exists (select from jobforge.leases l where l.id = j.lease_id)
    limit v_left;
    get diagnostics v_more = row_count;
    v_left := v_left - v_more;
    v_read := v_read + v_to - v_from;
  end loop;
  return query select null::uuid, null::uuid, null::text, null::uuid, null::timestamptz, v_read >= v_pages and v_left > 0;
end
$$;
comment on function jobforge.find_stranded(integer, integer) is
  'The jobs of list_stranded, looked for page by page. A claim and its lease are committed together, and so are a lease''s end and its '
  'jobs'' return: one snapshot tells.';

create or replace function jobforge.list_starved(p_waiting interval default '15 minutes', p_limit integer default 100)
returns table (kind text, name text, limit_name text, allowed double precision, waits_since timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_age(p_waiting);
  return query
  with limits as (
    select 'tenant' as kind, t.id::text as name, t.max_in_flight, t.rate_per_second, t.rate_burst
    from jobforge.tenants t where t.max_in_flight is not null or t.rate_per_second is not null
    union all
    select 'definition', d.key, d.max_in_flight, d.rate_per_second, d.rate_burst
    from jobforge.definitions d where d.max_in_flight is not null or d.rate_per_second is not null
  ), filled as (
    select l.kind, l.name, 'max_in_flight' as limit_name, l.max_in_flight::double precision as allowed
    from limits l
    where l.max_in_flight <= (
      select count(*) from jobforge.limited_runs r join jobforge.jobs j on j.tenant_id = r.tenant_id and j.id = r.job_id
      where r.kind = l.kind and r.name = l.name and j.lease_id = r.lease_id and j.fence = r.fence)
    union all
    select l.kind, l.name, 'rate', l.rate_per_second
    from limits l join jobforge.limit_buckets b on b.kind = l.kind and b.name = l.name
    where b.tokens + extract(epoch from v_now - b.filled_at) * l.rate_per_second < 1
  )
  select f.kind, f.name, f.limit_name, f.allowed, w.since
  from filled f cross join lateral jobforge.waits_since(f.kind, f.name) as w(since)
  where w.since < v_now - p_waiting
  order by w.since, f.kind, f.name, f.limit_name limit p_limit;
end
$$;
comment on function jobforge.list_starved(interval, integer) is
  'Tenants and definitions whose limit is full now while due work of theirs has waited for longer than p_waiting.';
grant execute on function jobforge.list_starved(interval, integer) to jf_operator;

create or replace function jobforge.list_forgotten_pauses(p_age interval default '1 day', p_limit integer default 100)
returns table (kind text, name text, reason text, author text, paused_at timestamptz, until timestamptz, waits_since timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_age(p_age);
  return query
  select p.kind, p.name, p.reason, p.author, p.paused_at, p.until, w.since
  from jobforge.pauses p cross join lateral jobforge.waits_since(p.kind, p.name) as w(since)
  where p.paused_at < v_now - p_age and (p.until is null or p.until > v_now) and w.since is not null
  order by p.paused_at, p.kind, p.name limit p_limit;
end
$$;
comment on function jobforge.list_forgotten_pauses(interval, integer) is
  'Pauses older than p_age that hold due work back, the oldest first.';
grant execute on function jobforge.list_forgotten_pauses(interval, integer) to jf_operator;

create or replace function jobforge.waits_since(p_kind text, p_name text) returns timestamptz
language plpgsql stable
set enable_seqscan = off set jit = off
as $$
declare
  v_since timestamptz;
begin
  -- The first ten thousand entries tell enough: ids and due times grow together.
  if p_kind = 'tenant' then
    select min(w.run_at) into v_since from (
      select j.run_at, j.ready and j.lease_id is null as ready from jobforge.jobs j
      where j.tenant_id = p_name::uuid order by j.id limit 10000) as w
    where w.ready;
  elsif p_kind = 'queue' then
    select min(w.run_at) into v_since from (
      (select j.run_at from jobforge.jobs j
       where j.queue = p_name and j.ready and j.lease_id is null and j.deaths < 2 and j.priority >= 10 and not j.keyed limit 10000)
      union all
      (select j.run_at from jobforge.jobs j where j.queue = p_name and j.ready and j.deaths < 2 and j.keyed limit 10000)) as w;
  else
    -- A type's jobs may wait in any queue; every queue that was ever claimed from has its sweep.
    select min(w.run_at) into v_since from (
      select d.queue from jobforge.definitions d where d.key = p_name union select s.queue from jobforge.sweeps s) as q
    cross join lateral (
      (select j.run_at from jobforge.jobs j
       where j.queue = q.queue and j.type = p_name and j.ready and j.lease_id is null and j.deaths < 2
         and j.priority >= 10 and not j.keyed
       limit 10000)
      union all
      (select j.run_at from jobforge.jobs j
       where j.queue = q.queue and j.type = p_name and j.ready and j.deaths < 2 and j.keyed limit 10000)) as w;
  end if;
  return v_since;
end
$$;
comment on function jobforge.waits_since(text, text) is
  'When the work of a queue, tenant or definition became due that waits longest, as far as a bounded look tells; null where none is found.';

create or replace function jobforge.require_age(p_age interval) returns void
language plpgsql immutable
as $$
begin
  if p_age is null or p_age not between interval '0' and interval '1 year' then
    perform jobforge.refuse('JF001', 'age_out_of_range', 'an age is 0 to 1 year');
  end if;
end
$$;
comment on function jobforge.require_age(interval) is 'Refuses an age that is none.';
