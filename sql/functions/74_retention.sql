-- owner: jf_sys
-- Retention: finished jobs leave with their partitions (75_partitions.sql); what no partition takes along leaves here, in
-- bounded steps: dead letters, keys, notes without a job, rows of default partitions, the system's own leftovers. And jobs that
-- nobody else would find go back.

create or replace function jobforge.prune(p_term bigint, p_limit integer default 1000, p_after jsonb default null)
returns table (keys integer, workers integer, sleepers integer, stats integer, history integer, dead_letters integer,
  orphans integer, more boolean, after jsonb)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_from record;
  v_keys record;
  v_dead record;
  v_notes record;
  v_rest record;
  v_samples integer;
  v_artifacts integer;
  v_audit integer;
  v_freed integer;
begin
  perform jobforge.require_limit(p_limit);
  perform jobforge.require_term(p_term);
  v_from := jobforge.prune_position(p_after);
  v_dead := jobforge.prune_dead_letters(v_now, p_limit, v_from.dead_tenant, v_from.dead_at, v_from.dead_id);
  -- After the letters, whose keys go with them.
  v_keys := jobforge.prune_keys(v_now, p_limit, v_from.key_at);
  v_notes := jobforge.prune_orphans(p_limit, v_from.note_tenant, v_from.note_job);
  keys := v_keys.removed; dead_letters := v_dead.removed; orphans := v_notes.removed;
  v_rest := jobforge.prune_defaults(v_now, p_limit);
  history := v_rest.removed;
  delete from jobforge.workers w where w.ctid = any (array(
    select o.ctid from jobforge.workers o
    where o.last_seen < v_now - interval '400 days'
      and not exists (select from jobforge.leases l where l.worker_no = o.no) limit p_limit));
  get diagnostics workers = row_count;
  delete from jobforge.sleepers s where s.expires_at < v_now - interval '10 minutes';
  get diagnostics sleepers = row_count;
  -- While any pause is there, claims go the long way.
  delete from jobforge.pauses p where p.ctid = any (array(
    select o.ctid from jobforge.pauses o where o.until <= v_now limit p_limit for update skip locked));
  delete from jobforge.queue_stats q where q.ctid = any (array(
    select o.ctid from jobforge.queue_stats o where o.at < v_now - interval '7 days' limit p_limit));
  get diagnostics stats = row_count;
  delete from jobforge.tenant_stats q where q.ctid = any (array(
    select o.ctid from jobforge.tenant_stats o where o.at < v_now - interval '7 days' limit p_limit));
  get diagnostics v_samples = row_count;
  stats := stats + v_samples;
  perform jobforge.prune_bulks(v_now, p_limit);
  perform jobforge.prune_runs(p_limit);
  v_artifacts := jobforge.prune_artifacts(v_now, p_limit);
  v_audit := jobforge.prune_audit(v_now, p_limit);
  -- The search for orphans finds none while all is well: it goes on with the next round and calls for none.
  more := v_keys.next_at is not null or v_dead.next_tenant is not null
    or v_rest.is_full or greatest(workers, stats, v_artifacts, v_audit) >= p_limit;
  after := jsonb_strip_nulls(jsonb_build_object('key_at', v_keys.next_at,
    'dead_tenant', v_dead.next_tenant, 'dead_at', v_dead.next_at, 'dead_id', v_dead.next_id,
    'note_tenant', v_notes.next_tenant, 'note_job', v_notes.next_job));
  -- Last, as it takes queues' rows in sweeps. Told with the position: those who know of no such count hand it back unread.
  v_freed := jobforge.give_back_stranded(v_now, p_limit);
  if v_freed > 0 then
    after := after || jsonb_build_object('stranded', v_freed);
  end if;
  return next;
end
$$;
comment on function jobforge.prune(bigint, integer, jsonb) is
  'Deletes what is past its time, looking at no more than p_limit of each kind from p_after on: dead letters with their '
  'notes, keys a day past their job''s end, notes without a job, old rows of default partitions, what finished jobs held of the '
  'artifact store, long gone workers, sleepers, pauses that ran out, samples, operations and entries of the audit log. Gives jobs back whose lease is gone (stranded in after). Says whether there may be more, and where to go on.';
grant execute on function jobforge.prune(bigint, integer, jsonb) to jf_operator;

create or replace function jobforge.prune_runs(p_limit integer) returns void
language sql volatile
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
  -- Claims sweep out a limit's runs when they come to it again; to many a key nobody comes again.
  delete from jobforge.limited_runs r where r.ctid = any (array(
    select o.ctid from jobforge.limited_runs o
    where not exists (select from jobforge.jobs j where j.tenant_id = o.tenant_id and j.id = o.job_id
                      and j.lease_id = o.lease_id and j.fence = o.fence)
    limit p_limit for update skip locked))
$$;
comment on function jobforge.prune_runs(integer) is 'Deletes runs noted for a limit that ended.';

create or replace function jobforge.give_back_stranded(p_now timestamptz, p_limit integer) returns integer
language plpgsql volatile
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off
as $$
declare
  v_freed integer;
  v_queues text[];
  v_run_ats timestamptz[];
begin
  with stranded as (
    select s.lease_id, array_agg(j.place) as places
    from jobforge.find_stranded(p_limit, 50) as s
    -- What somebody holds is found by a later call: who does the other upkeep does not wait for him.
    cross join lateral (
      select k.ctid as place from jobforge.jobs k
      where k.tenant_id = s.tenant_id and k.id = s.id and k.lease_id = s.lease_id for update skip locked) as j
    group by s.lease_id
  ), back as (
    select cardinality(s.places) as jobs, b.queues, b.run_ats
    from stranded s cross join lateral jobforge.hand_back_at(s.lease_id, s.places, p_now) as b
  )
  select coalesce((select sum(b.jobs) from back b), 0), array_agg(u.queue), array_agg(u.run_at)
  into v_freed, v_queues, v_run_ats
  from back b cross join lateral unnest(b.queues, b.run_ats) as u(queue, run_at);
  perform jobforge.look_behind(v_queues, v_run_ats);
  return v_freed;
end
$$;
comment on function jobforge.give_back_stranded(timestamptz, integer) is
  'Gives jobs back free whose lease is gone, a fault that no reaper finds; who had them is refused by the fence of the next claim. '
  'Those that somebody holds locked stay. Tells how many.';

create or replace function jobforge.retention_classes()
returns table (class text, unit text, step interval, life interval)
language sql immutable
as $$
  values ('day', 'day', interval '1 day', interval '1 day'), ('week', 'day', interval '1 day', interval '7 days'),
    ('month', 'week', interval '7 days', interval '31 days'), ('year', 'month', interval '1 month', interval '366 days')
$$;
comment on function jobforge.retention_classes() is
  'How long each class keeps what is over, and how much time one of its partitions covers: what is over leaves within a step '
  'after its time.';
grant execute on function jobforge.retention_classes() to jf_owner;

create or replace function jobforge.prune_position(
  p_after jsonb, out key_at timestamptz, out dead_tenant uuid, out dead_at timestamptz, out dead_id uuid, out note_tenant uuid,
  out note_job uuid)
language plpgsql stable
as $$
begin
  key_at := p_after ->> 'key_at';
  dead_tenant := p_after ->> 'dead_tenant'; dead_at := p_after ->> 'dead_at'; dead_id := p_after ->> 'dead_id';
  note_tenant := p_after ->> 'note_tenant'; note_job := p_after ->> 'note_job';
exception when data_exception then
  perform jobforge.refuse('JF001', 'position_malformed', 'p_after is not what an earlier prune answered');
end
$$;
comment on function jobforge.prune_position(jsonb) is 'Reads where an earlier prune stopped; what is missing starts anew.';

create or replace function jobforge.prune_keys(
  p_now timestamptz, p_limit integer, p_after timestamptz, out removed integer, out next_at timestamptz)
language plpgsql volatile
set enable_seqscan = off set enable_sort = off set jit = off
as $$
declare
  v_places tid[];
  v_before timestamptz := p_now - interval '1 day';
begin
  -- A batch of enqueues has one time for all of its keys: the step ends where a time ends.
  select array_agg(w.ctid), case when count(*) >= p_limit then max(w.created_at) end into v_places, next_at
  from (select k.ctid, k.created_at from jobforge.idempotency_keys k
        where k.created_at < v_before and k.created_at > coalesce(p_after, '-infinity')
        order by k.created_at fetch first (p_limit) rows with ties) as w;
  delete from jobforge.idempotency_keys k
  where k.ctid = any (v_places) and k.created_at < v_before
    and not exists (select from jobforge.jobs j where j.tenant_id = k.tenant_id and j.id = k.job_id)
    and not exists (select from jobforge.job_history h where h.tenant_id = k.tenant_id and h.id = k.job_id
                    and h.finished_at > v_before);
  get diagnostics removed = row_count;
end
$$;
comment on function jobforge.prune_keys(timestamptz, integer, timestamptz) is
  'Deletes keys whose job ended a day ago or longer, and is no dead letter; looks at p_limit keys or one batch of them.';

create or replace function jobforge.prune_dead_letters(
  p_now timestamptz, p_limit integer, p_tenant_id uuid, p_at timestamptz, p_id uuid, out removed integer,
  out next_tenant uuid, out next_at timestamptz, out next_id uuid)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  v_nil constant uuid := '00000000-0000-0000-0000-000000000000';
  v_left integer := p_limit;
  v_notes integer := 100 * p_limit;
  -- What the shortest class keeps need not be looked at.
  v_before timestamptz := p_now - coalesce((select min(c.life) from jobforge.retention_classes() as c
    join jobforge.definitions d on d.dead_retention = c.class), interval '366 days');
  v_job record;
begin
  removed := 0; next_tenant := coalesce(p_tenant_id, v_nil);
  next_at := coalesce(p_at, '-infinity'); next_id := coalesce(p_id, v_nil);
  loop
    for v_job in
      select w.id, w.finished_at, w.finished_at < p_now - c.life as is_over
      from (select j.id, j.finished_at, j.type from jobforge.jobs j
            where j.tenant_id = next_tenant and j.finished_at is not null and j.finished_at < v_before
              and (j.finished_at, j.id) > (next_at, next_id)
            order by j.finished_at, j.id limit v_left) as w
      left join jobforge.definitions d on d.key = w.type
      join jobforge.retention_classes() as c on c.class = coalesce(d.dead_retention, 'year')
      order by w.finished_at, w.id
    loop
      next_at := v_job.finished_at; next_id := v_job.id; v_left := v_left - 1;
      if v_job.is_over and jobforge.hold_dead_letter(next_tenant, v_job.id, v_job.finished_at) then
        v_notes := v_notes - jobforge.drop_notes(next_tenant, v_job.id);
        delete from jobforge.jobs j where j.tenant_id = next_tenant and j.id = v_job.id;
        removed := removed + 1;
      end if;
      exit when v_notes <= 0;
    end loop;
    exit when v_left <= 0 or v_notes <= 0;
    -- By the whole key of the dead letters' index: live jobs are not walked over.
    select j.tenant_id, '-infinity', v_nil into next_tenant, next_at, next_id
    from jobforge.jobs j where j.finished_at is not null and j.tenant_id > next_tenant
    order by j.tenant_id, j.finished_at, j.id limit 1;
    exit when next_tenant is null;
    v_left := v_left - 1;
  end loop;
end
$$;
comment on function jobforge.prune_dead_letters(timestamptz, integer, uuid, timestamptz, uuid) is
  'Deletes dead letters past the class of their definition, with their notes: tenant after tenant, the oldest first; p_limit '
  'of them, or as many as have a hundred notes for each, are looked at. Those that somebody is changing stay.';

create or replace function jobforge.hold_dead_letter(p_tenant_id uuid, p_job_id uuid, p_finished_at timestamptz)
returns boolean
language plpgsql volatile
as $$
begin
  perform from jobforge.jobs j
  where j.tenant_id = p_tenant_id and j.id = p_job_id and j.finished_at = p_finished_at for update skip locked;
  return found;
end
$$;
comment on function jobforge.hold_dead_letter(uuid, uuid, timestamptz) is
  'Locks a dead letter as it was seen; not one that somebody retries, cancels, or has changed since.';

create or replace function jobforge.drop_notes(p_tenant_id uuid, p_job_id uuid) returns integer
language plpgsql volatile
as $$
declare
  v_dropped integer;
  v_all integer := 0;
begin
  delete from jobforge.attempts a where a.tenant_id = p_tenant_id and a.job_id = p_job_id;
  get diagnostics v_dropped = row_count;
  v_all := v_all + v_dropped;
  delete from jobforge.job_logs l where l.tenant_id = p_tenant_id and l.job_id = p_job_id;
  get diagnostics v_dropped = row_count;
  v_all := v_all + v_dropped;
  delete from jobforge.attempt_exits e where e.tenant_id = p_tenant_id and e.job_id = p_job_id;
  get diagnostics v_dropped = row_count;
  v_all := v_all + v_dropped;
  delete from jobforge.job_progress p where p.tenant_id = p_tenant_id and p.job_id = p_job_id;
  get diagnostics v_dropped = row_count;
  return v_all + v_dropped + jobforge.drop_artifacts(p_tenant_id, p_job_id);
end
$$;
comment on function jobforge.drop_notes(uuid, uuid) is
  'Deletes what stands beside a job: attempts, log lines, programs'' ends, progress, and its hold on objects; tells how many rows.';

create or replace function jobforge.prune_orphans(
  p_limit integer, p_tenant_id uuid, p_job_id uuid, out removed integer, out next_tenant uuid, out next_job uuid)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_nil constant uuid := '00000000-0000-0000-0000-000000000000';
  v_lives boolean;
begin
  removed := 0; next_tenant := coalesce(p_tenant_id, v_nil); next_job := coalesce(p_job_id, v_nil);
  for v_looked in 1..p_limit loop
    -- Note and job in one statement, and so in one snapshot: a job that leaves takes its notes along in one transaction.
    select n.tenant_id, n.job_id, exists (select from jobforge.jobs j where j.tenant_id = n.tenant_id and j.id = n.job_id)
    into next_tenant, next_job, v_lives
    from (
      (select a.tenant_id, a.job_id from jobforge.attempts a where (a.tenant_id, a.job_id) > (next_tenant, next_job)
       order by a.tenant_id, a.job_id limit 1)
      union all
      (select l.tenant_id, l.job_id from jobforge.job_logs l where (l.tenant_id, l.job_id) > (next_tenant, next_job)
       order by l.tenant_id, l.job_id limit 1)
      union all
      (select e.tenant_id, e.job_id from jobforge.attempt_exits e where (e.tenant_id, e.job_id) > (next_tenant, next_job)
       order by e.tenant_id, e.job_id limit 1)
      union all
      (select p.tenant_id, p.job_id from jobforge.job_progress p where (p.tenant_id, p.job_id) > (next_tenant, next_job)
       order by p.tenant_id, p.job_id limit 1)
      union all
      (select h.tenant_id, h.job_id from jobforge.job_artifacts h
       where (h.tenant_id, h.job_id) > (next_tenant, next_job) and h.job_finished_at is null
       order by h.tenant_id, h.job_id limit 1)) as n
    order by n.tenant_id, n.job_id limit 1;
    exit when next_tenant is null;
    if not v_lives then
      removed := removed + jobforge.drop_notes(next_tenant, next_job);
    end if;
  end loop;
end
$$;
comment on function jobforge.prune_orphans(integer, uuid, uuid) is
  'Deletes attempts, log lines, programs'' ends, progress and holds on objects whose job is not there, looking at the notes of '
  'p_limit jobs; tells how many rows.';

create or replace function jobforge.prune_defaults(
  p_now timestamptz, p_limit integer, out removed integer, out is_full boolean)
language plpgsql volatile
as $$
declare
  v_class record;
  v_before timestamptz;
  v_leaf regclass;
  v_gone integer;
begin
  removed := 0; is_full := false;
  -- What is older than its class's time and one step can only lie in a default partition, or in one that is about to be
  -- dropped; and the latter is not emptied row by row.
  for v_class in select c.class, c.step, c.life from jobforge.retention_classes() as c loop
    v_before := (p_now at time zone 'UTC' - v_class.life - v_class.step) at time zone 'UTC';
    v_leaf := 'jobforge.job_history_' || v_class.class || '_default';
    delete from jobforge.job_history h
    where h.retention = v_class.class and h.finished_at < v_before and h.tableoid = v_leaf and h.ctid = any (array(
      select o.ctid from jobforge.job_history o
      where o.retention = v_class.class and o.finished_at < v_before and o.tableoid = v_leaf limit p_limit));
    get diagnostics v_gone = row_count;
    removed := removed + v_gone; is_full := is_full or v_gone = p_limit;
    v_leaf := 'jobforge.attempt_history_' || v_class.class || '_default';
    delete from jobforge.attempt_history h
    where h.retention = v_class.class and h.job_finished_at < v_before and h.tableoid = v_leaf and h.ctid = any (array(
      select o.ctid from jobforge.attempt_history o
      where o.retention = v_class.class and o.job_finished_at < v_before and o.tableoid = v_leaf limit p_limit));
    get diagnostics v_gone = row_count;
    is_full := is_full or v_gone = p_limit;
    v_leaf := 'jobforge.log_history_' || v_class.class || '_default';
    delete from jobforge.log_history h
    where h.retention = v_class.class and h.job_finished_at < v_before and h.tableoid = v_leaf and h.ctid = any (array(
      select o.ctid from jobforge.log_history o
      where o.retention = v_class.class and o.job_finished_at < v_before and o.tableoid = v_leaf limit p_limit));
    get diagnostics v_gone = row_count;
    is_full := is_full or v_gone = p_limit;
    v_leaf := 'jobforge.exit_history_' || v_class.class || '_default';
    delete from jobforge.exit_history h
    where h.retention = v_class.class and h.job_finished_at < v_before and h.tableoid = v_leaf and h.ctid = any (array(
      select o.ctid from jobforge.exit_history o
      where o.retention = v_class.class and o.job_finished_at < v_before and o.tableoid = v_leaf limit p_limit));
    get diagnostics v_gone = row_count;
    is_full := is_full or v_gone = p_limit;
  end loop;
end
$$;
comment on function jobforge.prune_defaults(timestamptz, integer) is
  'Deletes, up to p_limit rows of each table and class, what lies in default partitions past its class''s time and a step; '
  'tells how many jobs, and whether a limit was reached.';
