-- owner: jf_fn
-- Why does this job not run, and when will it? Under the tenant; what concerns everybody is told by 93's look-ups.

create or replace function jobforge.explain_job(p_tenant_id uuid, p_job_id uuid)
returns table (reason text, detail jsonb, until timestamptz, says text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_job jobforge.jobs;
begin
  perform jobforge.require_tenant(p_tenant_id);
  select j.* into v_job from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = p_job_id;
  if v_job.id is null or v_job.finished_at is not null then
    return query select e.* from jobforge.explain_end(p_tenant_id, p_job_id) as e;
    if not found then
      perform jobforge.refuse('JF007', 'job_unknown', format('explain: job %s is not known', p_job_id));
    end if;
  elsif v_job.lease_id is not null then
    return query select e.* from jobforge.explain_run(v_job, v_now) as e;
  elsif v_job.status = 'blocked' then
    return query select 'blocked', jsonb_strip_nulls(jsonb_build_object('parent_id', v_job.parent_id)), null::timestamptz,
      'waits for other jobs to end';
  else
    return query select e.* from jobforge.explain_wait(v_job, v_now) as e;
  end if;
end
$$;
comment on function jobforge.explain_job(uuid, uuid) is
  'Why a job does not run, the decisive reason first: reason and detail for programs, says for people, until where an end '
  'is known or, for its turn, estimated.';
grant execute on function jobforge.explain_job(uuid, uuid) to jf_tenant, jf_operator;

create or replace function jobforge.explain_end(p_tenant_id uuid, p_job_id uuid)
returns table (reason text, detail jsonb, until timestamptz, says text)
language sql stable
as $$
  select 'finished', jsonb_strip_nulls(jsonb_build_object('status', f.status, 'finished_at', f.finished_at, 'error', f.error,
      'attempt', f.attempt, 'failures', f.failures, 'deaths', f.deaths)), null::timestamptz,
    format('is over: %s', f.status) || case when f.status in ('failed', 'dead') then ', to be run again only by a retry' else '' end
  from jobforge.find_job(p_tenant_id, p_job_id) as f
  where f.finished_at is not null order by f.finished_at desc limit 1
$$;
comment on function jobforge.explain_end(uuid, uuid) is 'How a job ended; no row for one that did not. Called under the tenant.';

create or replace function jobforge.explain_run(p_job jobforge.jobs, p_now timestamptz)
returns table (reason text, detail jsonb, until timestamptz, says text)
language sql stable
as $$
  select case when l.expires_at > p_now then 'running' else 'lost' end,
    jsonb_build_object('worker_id', w.worker_id, 'attempt', p_job.fence, 'started_at', p_job.started_at,
      'lease_created_at', l.created_at, 'last_beat_at', l.beat_at,
      'lease_expires_at', jobforge.ran_out_at(l.expires_at, l.beat_at, l.ttl_seconds),
      'solo', coalesce(l.solo, false), 'cancel_requested', p_job.cancel_at is not null),
    null::timestamptz,
    case when l.expires_at > p_now
      then format('runs since %s s as attempt %s', extract(epoch from p_now - p_job.started_at)::bigint, p_job.fence)
        || case when p_job.cancel_at is not null then '; its worker was asked to stop it' else '' end
      else 'its worker was lost; the next reaping takes the job back' end
  from (values (1)) as one(row)
  left join jobforge.leases l on l.id = p_job.lease_id
  left join jobforge.workers w on w.no = p_job.worker_no
$$;
comment on function jobforge.explain_run(jobforge.jobs, timestamptz) is
  'Who runs a job and when it was last heard of, or that its lease ran out.';

create or replace function jobforge.explain_wait(p_job jobforge.jobs, p_now timestamptz)
returns table (reason text, detail jsonb, until timestamptz, says text)
language plpgsql stable
as $$
declare
  v_due boolean := p_job.ready or p_job.run_at <= p_now;
  v_held boolean := false;
begin
  if not v_due then
    return query select 'scheduled', jsonb_build_object('run_at', p_job.run_at, 'failures', p_job.failures,
        'seconds', round(extract(epoch from p_job.run_at - p_now), 3)), p_job.run_at,
      format('is due in %s s', ceil(extract(epoch from p_job.run_at - p_now))::bigint)
        || case when p_job.failures > 0 then format(', after %s failures', p_job.failures) else '' end;
  end if;
  -- Endless pauses first: they need somebody.
  return query
  select h.kind || '_paused', jsonb_strip_nulls(jsonb_build_object('name', h.name, 'author', h.author, 'reason', h.reason,
      'paused_at', h.paused_at, 'until', h.until)), h.until,
    format('the %s is paused by %s', h.kind, h.author) || coalesce(': ' || nullif(h.reason, ''), '')
  from jobforge.holding_pauses(p_job.tenant_id, p_job.queue, p_job.type, p_now) as h
  order by h.until desc nulls first, h.kind;
  v_held := v_held or found;
  return query select e.* from jobforge.explain_workers(p_job.queue, p_job.type, p_now) as e;
  v_held := v_held or found;
  if not v_due then
    return;
  end if;
  return query select e.* from jobforge.explain_limits(p_job, p_now) as e;
  v_held := v_held or found;
  return query select e.* from jobforge.explain_turn(p_job, v_held, p_now) as e;
end
$$;
comment on function jobforge.explain_wait(jobforge.jobs, timestamptz) is
  'What a waiting job waits for, the decisive reason first. Limits and turns concern only what is due.';

create or replace function jobforge.explain_workers(p_queue text, p_type text, p_now timestamptz)
returns table (reason text, detail jsonb, until timestamptz, says text)
language sql stable
as $$
  select 'no_worker', jsonb_build_object('queue', p_queue, 'type', p_type, 'elsewhere', f.elsewhere, 'last_seen', f.last_seen),
    null::timestamptz,
    case when f.elsewhere > 0 then format('no live worker serves queue %s for type %s; %s in other queues', p_queue, p_type, f.elsewhere)
      else format('no live worker knows type %s', p_type) end
  from (
    select count(*) filter (where w.here and w.lives) as here, count(*) filter (where w.lives) as elsewhere,
      max(w.last_seen) filter (where w.here) as last_seen
    from (select p_queue = any (k.queues) as here, k.last_seen,
            k.stopped_at is null and k.last_seen >= p_now - interval '90 seconds' as lives
          from jobforge.workers k where p_type = any (k.types)) as w) as f
  where f.here = 0
$$;
comment on function jobforge.explain_workers(text, text, timestamptz) is
  'That no live worker serves the lane, and how many know the type in other queues; no row where one does.';

create or replace function jobforge.explain_limits(p_job jobforge.jobs, p_now timestamptz)
returns table (reason text, detail jsonb, until timestamptz, says text)
language plpgsql stable
as $$
declare
  v_limit record;
  v_state record;
begin
  for v_limit in
    select l.kind, l.name, l.most, l.rate, jobforge.burst(l.rate, l.burst) as burst
    from (
      select 1 as o, 'tenant' as kind, t.id::text as name, t.max_in_flight as most, t.rate_per_second as rate, t.rate_burst as burst
      from jobforge.tenants t where t.id = p_job.tenant_id
      union all
      select 2, 'definition', d.key, d.max_in_flight, d.rate_per_second, d.rate_burst
      from jobforge.definitions d where d.key = p_job.type
      union all
      select 3, 'key', p_job.concurrency_key, coalesce(d.max_in_flight_per_key, 1), null, null
      from (values (1)) as one(row) left join jobforge.definitions d on d.key = p_job.type
      where p_job.concurrency_key is not null) as l
    order by l.o
  loop
    if v_limit.most is not null then
      select s.running, s.job_ids into v_state
      from jobforge.limited_now(p_job.tenant_id, v_limit.kind, v_limit.name, v_limit.most) as s;
      if v_state.running >= v_limit.most then
        return query select case v_limit.kind when 'key' then 'concurrency_key' else v_limit.kind || '_in_flight' end,
          jsonb_build_object(v_limit.kind, v_limit.name, 'max', v_limit.most, 'running', v_state.running, 'job_ids', v_state.job_ids),
          null::timestamptz,
          format('%s of %s jobs run that the %s allows at a time', v_state.running, v_limit.most,
            case v_limit.kind when 'key' then 'concurrency key' else v_limit.kind end);
      end if;
    end if;
    if v_limit.rate is not null then
      select jobforge.tokens_now(p_job.tenant_id, v_limit.kind, v_limit.name, v_limit.rate, v_limit.burst, p_now) as tokens
      into v_state;
      if v_state.tokens < 1 then
        return query select v_limit.kind || '_rate',
          jsonb_build_object(v_limit.kind, v_limit.name, 'rate', v_limit.rate, 'burst', v_limit.burst, 'tokens', v_state.tokens,
            'next_at', n.at),
          n.at, format('the %s''s rate of %s a second is used up until %s', v_limit.kind, v_limit.rate, n.at)
        from (select p_now + make_interval(secs => (1 - v_state.tokens) / v_limit.rate)) as n(at);
      end if;
    end if;
  end loop;
end
$$;
comment on function jobforge.explain_limits(jobforge.jobs, timestamptz) is
  'The limits of the tenant, the definition and the concurrency key that are used up now.';

create or replace function jobforge.explain_turn(p_job jobforge.jobs, p_held boolean, p_now timestamptz)
returns table (reason text, detail jsonb, until timestamptz, says text)
language plpgsql stable
as $$
declare
  v_most constant integer := 10000;
  v_ahead bigint;
  v_crowd integer;
  v_rates record;
  v_pace double precision;
  v_start timestamptz;
begin
  if p_job.deaths >= 2 then
    v_ahead := jobforge.apart_ahead(p_job.tenant_id, p_job.id, v_most);
    return query select 'solo_pending', jsonb_build_object('deaths', p_job.deaths, 'ahead', least(v_ahead, v_most),
        'capped', v_ahead > v_most), null::timestamptz,
      format('was running when its worker was lost %s times: waits to run alone', p_job.deaths);
    return;
  elsif p_job.priority < 10 and not p_job.keyed then
    v_ahead := jobforge.apart_ahead(p_job.tenant_id, p_job.id, v_most);
  else
    v_ahead := jobforge.lane_ahead(p_job, v_most);
  end if;
  v_crowd := jobforge.lane_crowd(p_job.tenant_id, p_job.queue, p_job.type, v_most);
  select r.* into v_rates from jobforge.lane_rates(p_job.tenant_id, p_job.queue, p_now) as r;
  -- By the tenant's own pace where it has one, else by an equal share of the queue's.
  v_pace := coalesce(nullif(v_rates.tenant_rate, 0), nullif(v_rates.queue_rate, 0) / greatest(v_crowd, 1));
  if v_pace is not null and not p_held then
    v_start := p_now + make_interval(secs => least((v_ahead + 1) / v_pace, 315360000));
  end if;
  return query select 'waiting_turn', jsonb_build_object('ahead', least(v_ahead, v_most), 'capped', v_ahead > v_most,
      'tenants', least(v_crowd, v_most), 'tenants_capped', v_crowd > v_most, 'tenant_rate', v_rates.tenant_rate,
      'queue_rate', v_rates.queue_rate, 'estimated_start', v_start),
    v_start,
    format('waits for its turn; jobs before it: %s%s, tenants with work: %s%s', case when v_ahead > v_most then 'more than ' else '' end,
      least(v_ahead, v_most), case when v_crowd > v_most then 'more than ' else '' end, least(v_crowd, v_most));
end
$$;
comment on function jobforge.explain_turn(jobforge.jobs, boolean, timestamptz) is
  'Where a due job stands in its lane, and when it may start by the pace of the last minutes; one that killed twice waits to run alone.';

create or replace function jobforge.lane_ahead(p_job jobforge.jobs, p_most integer) returns bigint
language sql stable
as $$
  select count(*) from (
    (select from jobforge.jobs j
     where not p_job.keyed and j.queue = p_job.queue and j.type = p_job.type and j.tenant_id = p_job.tenant_id
       and (j.priority, j.run_at, j.id) < (p_job.priority, p_job.run_at, p_job.id)
       and j.ready and j.lease_id is null and j.deaths < 2 and j.priority >= 10 and not j.keyed
     order by j.priority, j.run_at, j.id limit p_most + 1)
    union all
    (select from jobforge.jobs j
     where p_job.keyed and j.queue = p_job.queue and j.type = p_job.type and j.tenant_id = p_job.tenant_id
       and j.concurrency_key = p_job.concurrency_key and (j.priority, j.run_at, j.id) < (p_job.priority, p_job.run_at, p_job.id)
       and j.ready and j.deaths < 2 and j.keyed
     order by j.priority, j.run_at, j.id limit p_most + 1)) as before
$$;
comment on function jobforge.lane_ahead(jobforge.jobs, integer) is
  'How many ready jobs of the tenant stand before this one in its lane, or of its key if it has one; p_most + 1 at most.';
