-- owner: jf_sys
-- What an explanation must know beyond its tenant: pauses, limits, the crowd. Each refuses a tenant that is not the
-- caller's, and answers with numbers and with that tenant's own ids.

create or replace function jobforge.holding_pauses(p_tenant_id uuid, p_queue text, p_type text, p_now timestamptz)
returns table (kind text, name text, author text, reason text, paused_at timestamptz, until timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  return query
  select p.kind, p.name, p.author, p.reason, p.paused_at, p.until
  from (values ('queue', p_queue), ('tenant', p_tenant_id::text), ('definition', p_type)) as w(kind, name)
  join jobforge.pauses p on p.kind = w.kind and p.name = w.name
  where p.until is null or p.until > p_now;
end
$$;
comment on function jobforge.holding_pauses(uuid, text, text, timestamptz) is
  'The pauses that hold a lane of the tenant now.';
grant execute on function jobforge.holding_pauses(uuid, text, text, timestamptz) to jf_fn;

create or replace function jobforge.limited_now(
  p_tenant_id uuid, p_kind text, p_name text, p_most integer, out running bigint, out job_ids uuid[])
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  -- Only a definition's name may be the caller's choice.
  v_name text := case p_kind when 'tenant' then p_tenant_id::text when 'key' then p_tenant_id::text || '/' || p_name else p_name end;
begin
  perform jobforge.require_tenant(p_tenant_id);
  select count(*), coalesce((array_agg(h.job_id order by h.started_at, h.job_id) filter (where h.tenant_id = p_tenant_id))[:20], '{}')
  into running, job_ids
  from (
    select r.tenant_id, r.job_id, j.started_at
    from jobforge.limited_runs r
    cross join lateral (
      select k.started_at from jobforge.jobs k
      where k.tenant_id = r.tenant_id and k.id = r.job_id and k.lease_id = r.lease_id and k.fence = r.fence offset 0) as j
    where r.kind = p_kind and r.name = v_name
    limit p_most) as h;
end
$$;
comment on function jobforge.limited_now(uuid, text, text, integer) is
  'How many runs count against a limit now, p_most at most, and up to twenty of them that are the tenant''s own.';
grant execute on function jobforge.limited_now(uuid, text, text, integer) to jf_fn;

create or replace function jobforge.tokens_now(
  p_tenant_id uuid, p_kind text, p_name text, p_rate double precision, p_burst double precision, p_now timestamptz)
returns double precision
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  return jobforge.tokens(p_kind, case p_kind when 'tenant' then p_tenant_id::text else p_name end, p_rate, p_burst::integer,
    p_now);
end
$$;
comment on function jobforge.tokens_now(uuid, text, text, double precision, double precision, timestamptz) is
  'What is left of a rate now.';
grant execute on function jobforge.tokens_now(uuid, text, text, double precision, double precision, timestamptz) to jf_fn;

create or replace function jobforge.apart_ahead(p_tenant_id uuid, p_job_id uuid, p_most integer) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_job record;
begin
  perform jobforge.require_tenant(p_tenant_id);
  select j.queue, j.type, j.priority, j.run_at, j.id, case when j.deaths >= 2 then 1 else 0 end as suspect into v_job
  from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = p_job_id;
  return (
    select count(*) from (
      select from jobforge.jobs j
      where j.queue = v_job.queue and j.type = v_job.type and j.ready and (j.deaths >= 2 or (j.priority < 10 and not j.keyed))
        and (case when j.deaths >= 2 then 1 else 0 end) = v_job.suspect
        and (j.priority, j.run_at, j.id) < (v_job.priority, v_job.run_at, v_job.id)
      order by j.priority, j.run_at, j.id limit p_most + 1) as before);
end
$$;
comment on function jobforge.apart_ahead(uuid, uuid, integer) is
  'How many jobs, whosever they are, stand before one that takes no tenant''s turn: a suspect, or reserved work; p_most + 1 at most.';
grant execute on function jobforge.apart_ahead(uuid, uuid, integer) to jf_fn;

create or replace function jobforge.lane_crowd(p_tenant_id uuid, p_queue text, p_type text, p_most integer) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  return (
    -- The edge makes the first step include the system's tenant, whose id is the smallest there is.
    with recursive crowd as (
      select '00000000-0000-0000-0000-000000000000'::uuid as tenant_id, 0::smallint as edge, 0 as n
      union all
      select w.tenant_id, 32767::smallint, c.n + 1
      from crowd c cross join lateral (
        select j.tenant_id from jobforge.jobs j
        where j.queue = p_queue and j.type = p_type and j.ready and j.lease_id is null and j.deaths < 2
          and j.priority >= 10 and not j.keyed
          and (j.tenant_id, j.priority) > (c.tenant_id, c.edge)
        order by j.tenant_id, j.priority limit 1) as w
      where c.n <= p_most)
    select max(c.n) from crowd c);
end
$$;
comment on function jobforge.lane_crowd(uuid, text, text, integer) is
  'How many tenants have ready work in a lane, p_most + 1 at most.';
grant execute on function jobforge.lane_crowd(uuid, text, text, integer) to jf_fn;

create or replace function jobforge.lane_rates(
  p_tenant_id uuid, p_queue text, p_now timestamptz, out tenant_rate double precision, out queue_rate double precision)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_window record;
begin
  perform jobforge.require_tenant(p_tenant_id);
  select w.* into v_window from jobforge.rate_window(p_now) as w;
  tenant_rate := (
    select coalesce(sum(t.completed + t.failed + t.canceled), 0) / greatest(v_window.seconds, sum(t.seconds))
    from jobforge.tenant_stats t where t.tenant_id = p_tenant_id and t.at >= v_window.first);
  queue_rate := (
    select coalesce(sum(q.completed + q.failed + q.canceled), 0) / greatest(v_window.seconds, sum(q.seconds))
    from jobforge.queue_stats q where q.queue = p_queue and q.at >= v_window.first);
end
$$;
comment on function jobforge.lane_rates(uuid, text, timestamptz) is
  'Jobs that ended a second in the last minutes: the tenant''s, and the queue''s of all tenants; null where no samples tell.';
grant execute on function jobforge.lane_rates(uuid, text, timestamptz) to jf_fn;

create or replace function jobforge.rate_window(p_now timestamptz, out first timestamptz, out seconds double precision, out sampled_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- Samples older than two minutes tell nothing of now.
  select s.w, extract(epoch from s.until - greatest(s.began_at, s.w)), s.sampled_at into first, seconds, sampled_at
  from (select r.*, date_trunc('minute', r.sampled_at) - interval '4 minutes' as w from jobforge.sampler r) as s
  where s.sampled_at > p_now - interval '2 minutes' and s.until > s.began_at;
end
$$;
comment on function jobforge.rate_window(timestamptz) is
  'The last four to five minutes that samples cover, for rates; nulls where nobody samples.';
grant execute on function jobforge.rate_window(timestamptz) to jf_fn;
