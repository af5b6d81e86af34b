-- owner: jf_sys
-- Samples for the curves: depths, and what came and went. Nothing on a job's way pays for them: live work is counted
-- page by page, the history by what was written behind the last sample's end.

create or replace function jobforge.sample_stats(p_term bigint, p_limit integer default 100000)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_last jobforge.sampler;
  v_since timestamptz;
  v_queues integer;
  -- What is not committed within a second is not counted.
  v_until constant timestamptz := v_now - interval '1 second';
begin
  perform jobforge.require_term(p_term);
  if p_limit is null or p_limit not between 1 and 10000000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 10000000');
  end if;
  select s.* into v_last from jobforge.sampler s for no key update;
  -- The first sample has nothing behind it that it could count from. After a day's pause, or when the clock went back,
  -- the counting begins anew.
  v_since := case when v_last.until between v_until - interval '1 day' and v_until then v_last.until else v_until end;
  delete from jobforge.history_tails t where not exists (select from pg_class c where c.oid = t.leaf);
  -- One statement, whose snapshot the counting functions share: a job is live or over, never both.
  with counted as materialized (
    select c.queue, c.tenant_id, c.queued, c.ready, c.running, c.dead, c.enqueued, 0::bigint as completed, c.failed,
      0::bigint as canceled, c.oldest_ready, c.estimated, null::oid as leaf, null::bigint as block
    from jobforge.count_live(p_limit, v_since, v_until) as c
    union all
    select f.queue, f.tenant_id, 0, 0, 0, 0, f.enqueued, f.completed, 0, f.canceled, null, f.estimated, f.leaf, f.block
    from jobforge.count_finished(p_limit, v_since, v_until, v_now) as f
    union all
    -- A curve that was above zero must come down to it.
    select q.queue, null, 0, 0, 0, 0, 0, 0, 0, 0, null, false, null, null
    from jobforge.queue_stats q where q.at = v_last.sampled_at and q.queued + q.running + q.dead > 0
    union all
    select null, t.tenant_id, 0, 0, 0, 0, 0, 0, 0, 0, null, false, null, null
    from jobforge.tenant_stats t
    where t.at = date_trunc('minute', v_last.sampled_at) and t.queued + t.running + t.dead > 0
  ), tails as (
    insert into jobforge.history_tails (leaf, block) select c.leaf, c.block from counted c where c.leaf is not null
    on conflict (leaf) do update set block = excluded.block
  ), tenants as (
    insert into jobforge.tenant_stats as t (tenant_id, at, queued, ready, running, dead, enqueued, completed, failed,
      canceled, seconds, oldest_seconds, estimated)
    select c.tenant_id, date_trunc('minute', v_now), sum(c.queued), sum(c.ready), sum(c.running), sum(c.dead),
      sum(c.enqueued), sum(c.completed), sum(c.failed), sum(c.canceled), extract(epoch from v_until - v_since),
      extract(epoch from v_now - min(c.oldest_ready)), bool_or(c.estimated)
    from counted c where c.tenant_id is not null
    group by c.tenant_id
    order by sum(c.enqueued + c.completed + c.failed + c.canceled) desc, sum(c.queued + c.running + c.dead) desc, c.tenant_id
    limit 100
    on conflict (tenant_id, at) do update
    set queued = excluded.queued, ready = excluded.ready, running = excluded.running, dead = excluded.dead,
      enqueued = t.enqueued + excluded.enqueued, completed = t.completed + excluded.completed,
      failed = t.failed + excluded.failed, canceled = t.canceled + excluded.canceled, seconds = t.seconds + excluded.seconds,
      oldest_seconds = excluded.oldest_seconds, estimated = t.estimated or excluded.estimated
  )
  insert into jobforge.queue_stats (at, queue, queued, ready, running, dead, enqueued, completed, failed, canceled, seconds,
    oldest_seconds, estimated)
  select v_now, c.queue, sum(c.queued), sum(c.ready), sum(c.running), sum(c.dead), sum(c.enqueued), sum(c.completed),
    sum(c.failed), sum(c.canceled), extract(epoch from v_until - v_since), extract(epoch from v_now - min(c.oldest_ready)),
    bool_or(c.estimated)
  from counted c where c.queue is not null
  group by c.queue
  on conflict do nothing;
  get diagnostics v_queues = row_count;
  update jobforge.sampler s set until = v_until, sampled_at = v_now,
    began_at = case when v_since = s.until then s.began_at else v_until end;
  return v_queues;
end
$$;
comment on function jobforge.sample_stats(bigint, integer) is
  'Samples depths, arrivals and ends per queue, and per tenant for the hundred busiest, over about p_limit live and as '
  'many finished jobs; where there are more, it estimates. Answers the number of queues.';
grant execute on function jobforge.sample_stats(bigint, integer) to jf_operator;

create or replace function jobforge.count_live(p_limit integer, p_since timestamptz, p_until timestamptz)
returns table (queue text, tenant_id uuid, queued bigint, ready bigint, running bigint, dead bigint, enqueued bigint,
  failed bigint, oldest_ready timestamptz, estimated boolean)
language plpgsql stable
as $$
declare
  -- About twenty jobs lie on a page. Of more pages than are allowed, an even part is read, whole pages at a time.
  v_part double precision := least(1, ceil(p_limit / 20.0)
    / greatest(pg_relation_size('jobforge.jobs') / current_setting('block_size')::integer, 1));
begin
  return query
  select j.queue, j.tenant_id,
    round(count(*) filter (where j.status in ('queued', 'blocked')) / v_part)::bigint,
    round(count(*) filter (where j.ready and j.lease_id is null) / v_part)::bigint,
    round(count(*) filter (where j.status = 'running') / v_part)::bigint,
    round(count(*) filter (where j.finished_at is not null) / v_part)::bigint,
    round(count(*) filter (where j.created_at > p_since and j.created_at <= p_until) / v_part)::bigint,
    round(count(*) filter (where j.finished_at > p_since and j.finished_at <= p_until) / v_part)::bigint,
    min(j.run_at) filter (where j.ready and j.lease_id is null), v_part < 1
  from jobforge.jobs j tablesample system (100 * v_part)
  group by j.queue, j.tenant_id;
end
$$;
comment on function jobforge.count_live(integer, timestamptz, timestamptz) is
  'Counts live jobs by queue and tenant: exactly where the table has few pages, else estimated from an even part of them.';

create or replace function jobforge.count_finished(
  p_limit integer, p_since timestamptz, p_until timestamptz, p_now timestamptz)
returns table (queue text, tenant_id uuid, enqueued bigint, completed bigint, canceled bigint, estimated boolean,
  leaf oid, block bigint)
language plpgsql stable
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan
as $$
declare
  v_most bigint := ceil(p_limit / 20.0);
  v_leaf record;
  v_from bigint;
  v_to bigint;
  v_tail tid;
  v_part double precision;
begin
  for v_leaf in
    select l.leaf, l.retention, l.first, l.past, t.block,
      pg_relation_size(l.leaf) / current_setting('block_size')::integer as blocks
    from jobforge.open_leaves(p_since, p_now) as l left join jobforge.history_tails t on t.leaf = l.leaf
  loop
    -- Pages are filled side by side and some late: a stretch before the tail is read again, and what is older than the
    -- last sample is not counted again.
    v_from := greatest(coalesce(v_leaf.block, 0) - 512, 0);
    if v_leaf.blocks - v_from > v_most then
      v_from := coalesce(v_leaf.block, 0);
    end if;
    v_part := least(1, v_most::double precision / greatest(v_leaf.blocks - v_from, 1));
    v_to := case when v_part < 1 then v_from + v_most else v_leaf.blocks + 1000000 end;
    v_tail := null;
    leaf := null; block := null;
    if p_since < p_until and v_leaf.blocks > 0 then
      for queue, tenant_id, enqueued, completed, canceled, v_tail in
        select h.queue, h.tenant_id,
          round(count(*) filter (where h.created_at > p_since and h.created_at <= p_until) / v_part),
          round(count(*) filter (where h.status = 'succeeded' and h.finished_at <= p_until) / v_part),
          round(count(*) filter (where h.status = 'canceled' and h.finished_at <= p_until) / v_part),
          min(min(h.ctid) filter (where h.finished_at > p_until)) over ()
        from jobforge.job_history h
        where h.retention = v_leaf.retention and h.finished_at > p_since and h.finished_at >= v_leaf.first
          and h.finished_at < v_leaf.past and h.tableoid = v_leaf.leaf
          and h.ctid >= format('(%s,0)', v_from)::tid and h.ctid < format('(%s,0)', v_to)::tid
        group by h.queue, h.tenant_id
      loop
        estimated := v_part < 1;
        return next;
      end loop;
    end if;
    queue := null; tenant_id := null; enqueued := 0; completed := 0; canceled := 0; estimated := false;
    leaf := v_leaf.leaf;
    block := least(v_leaf.blocks, split_part(trim(leading '(' from v_tail::text), ',', 1)::bigint);
    return next;
  end loop;
end
$$;
comment on function jobforge.count_finished(integer, timestamptz, timestamptz, timestamptz) is
  'Counts what came into the history between two samples by reading what was written behind the last one''s end; of a '
  'longer stretch, its beginning, scaled up. A row with a leaf tells where the next sample starts in it.';

create or replace function jobforge.open_leaves(p_since timestamptz, p_now timestamptz)
returns table (leaf oid, retention text, first timestamptz, past timestamptz)
language sql stable
as $$
  select to_regclass('jobforge.' || w.leaf)::oid, replace(w.parent, 'job_history_', ''), w.first, w.past
  from jobforge.wanted_partitions(p_since) as w
  where w.parent like 'job_history%' and w.first <= p_now and to_regclass('jobforge.' || w.leaf) is not null
  union all
  select to_regclass('jobforge.job_history_' || c.retention || '_default')::oid, c.retention, '-infinity', 'infinity'
  from (values ('day'), ('week'), ('month'), ('year')) as c(retention)
$$;
comment on function jobforge.open_leaves(timestamptz, timestamptz) is
  'The partitions of the history into which jobs that ended between the two times went, with their bounds.';
