-- owner: jf_fn
-- Look at dead letters: a page of them, groups of one cause, and the fingerprint that makes them one.

create or replace function jobforge.list_dead_letters(
  p_tenant_id uuid, p_fingerprint text default null, p_type text default null, p_queue text default null,
  p_failed_after timestamptz default null, p_failed_before timestamptz default null, p_limit integer default 50,
  p_cursor text default null, p_budget_ms integer default 500)
returns table (
  id uuid, type text, queue text, status text, class text, fingerprint text, error text, created_at timestamptz,
  finished_at timestamptz, attempt integer, failures integer, deaths integer, max_attempts integer, source text,
  correlation_id text, tags jsonb, next_cursor text, complete boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_until timestamptz := clock_timestamp() + make_interval(secs => p_budget_ms / 1000.0);
  v_from record;
  v_row record;
  v_left integer := p_limit;
  v_seen integer;
begin
  perform jobforge.require_tenant(p_tenant_id);
  if p_limit is null or p_limit not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 1000');
  elsif p_budget_ms is null or p_budget_ms not between 1 and 60000 then
    perform jobforge.refuse('JF001', 'budget_out_of_range', 'p_budget_ms must be 1 to 60000');
  end if;
  select coalesce(p_failed_before, 'infinity') as at, '00000000-0000-0000-0000-000000000000'::uuid as id into v_from;
  if p_cursor is not null then
    v_from := jobforge.read_cursor(p_cursor);
  end if;
  -- A thousand at a time; a filter that finds little ends at its budget with a cursor to go on from.
  loop
    v_seen := 0;
    for v_row in
      select * from jobforge.previous_dead_letters(p_tenant_id, v_from.at, v_from.id, p_failed_after, p_failed_before, 1000)
    loop
      v_seen := v_seen + 1;
      select v_row.finished_at as at, v_row.id as id into v_from;
      continue when not (p_type is null or v_row.type = p_type) or not (p_queue is null or v_row.queue = p_queue);
      fingerprint := jobforge.error_fingerprint(v_row.type, v_row.class, v_row.error);
      continue when fingerprint <> p_fingerprint;
      id := v_row.id; type := v_row.type; queue := v_row.queue; status := v_row.status; class := v_row.class;
      error := v_row.error; created_at := v_row.created_at; finished_at := v_row.finished_at; attempt := v_row.fence;
      failures := v_row.failures; deaths := v_row.deaths; max_attempts := v_row.max_attempts; source := v_row.source;
      correlation_id := v_row.correlation_id; tags := v_row.tags;
      return next;
      v_left := v_left - 1;
      exit when v_left = 0;
    end loop;
    exit when v_left = 0 or v_seen < 1000 or clock_timestamp() > v_until;
  end loop;
  return query select null::uuid, null, null, null, null, null, null, null::timestamptz, null::timestamptz, null::integer,
    null::integer, null::integer, null::integer, null, null, null::jsonb,
    case when v_left = 0 or v_seen = 1000 then jobforge.write_cursor(v_from.at, v_from.id) end, v_left = 0 or v_seen < 1000;
end
$$;
comment on function jobforge.list_dead_letters(uuid, text, text, text, timestamptz, timestamptz, integer, text, integer) is
  'A page of dead letters, the last to die first, each with its fingerprint. The last row has no id: it tells the cursor of '
  'the next page and whether this one is complete.';
grant execute on function jobforge.list_dead_letters(uuid, text, text, text, timestamptz, timestamptz, integer, text, integer)
  to jf_tenant, jf_operator;

create or replace function jobforge.group_dead_letters(
  p_tenant_id uuid, p_type text default null, p_queue text default null, p_failed_after timestamptz default null,
  p_failed_before timestamptz default null, p_limit integer default 100, p_scan integer default 10000)
returns table (
  fingerprint text, type text, class text, message text, jobs bigint, first_at timestamptz, last_at timestamptz,
  sample_id uuid, sample_error text, capped boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  if p_limit is null or p_limit not between 1 and 1000 then
    perform jobforge.refuse('JF001', 'limit_out_of_range', 'p_limit must be 1 to 1000');
  elsif p_scan is null or p_scan not between 1 and 100000 then
    perform jobforge.refuse('JF001', 'scan_out_of_range', 'p_scan must be 1 to 100000');
  end if;
  return query
  with seen as materialized (
    select d.*, row_number() over () as n from jobforge.previous_dead_letters(p_tenant_id, coalesce(p_failed_before, 'infinity'),
      '00000000-0000-0000-0000-000000000000', p_failed_after, p_failed_before, p_scan + 1) as d
  ), told as materialized (
    select s.*, jobforge.error_fingerprint(s.type, s.class, s.error) as fingerprint from seen s
    where s.n <= p_scan and (p_type is null or s.type = p_type) and (p_queue is null or s.queue = p_queue)
  ), grouped as (
    select t.fingerprint, count(*) as jobs, min(t.finished_at) as first_at, max(t.finished_at) as last_at, min(t.n) as last_n
    from told t group by t.fingerprint
  )
  select g.fingerprint, t.type, t.class, jobforge.normal_error(t.error), g.jobs, g.first_at, g.last_at, t.id, t.error,
    exists (select from seen s where s.n > p_scan)
  from grouped g join told t on t.n = g.last_n
  order by g.jobs desc, g.last_at desc, g.fingerprint limit p_limit;
end
$$;
comment on function jobforge.group_dead_letters(uuid, text, text, timestamptz, timestamptz, integer, integer) is
  'Dead letters by fingerprint, the largest group first, with the latest of each as its sample. Looks at the last p_scan '
  'dead letters; capped says that there were more.';
grant execute on function jobforge.group_dead_letters(uuid, text, text, timestamptz, timestamptz, integer, integer)
  to jf_tenant, jf_operator;

create or replace function jobforge.error_fingerprint(p_type text, p_class text, p_error text) returns text
language sql immutable
as $$
  -- Without an error they have one in common, too.
  select left(encode(sha256(convert_to(p_type || E'\n' || p_class || E'\n' || coalesce(jobforge.normal_error(p_error), ''),
    'UTF8')), 'hex'), 16)
$$;
comment on function jobforge.error_fingerprint(text, text, text) is
  'What dead letters of one cause have in common: 16 hex digits of type, class and normal error. Computed when read, never stored.';

create or replace function jobforge.normal_error(p_error text) returns text
language plpgsql immutable
as $$
declare
  -- The first line, of which no more is looked at than can matter. Under "C": the same in every database.
  v_text text collate "C" := lower(left(split_part(ltrim(p_error, E' \t\r\n'), E'\n', 1), 2000) collate "C");
  -- A number of three digits behind a word that says so: the status of an answer, the code of an exit.
  v_code constant text := '(\m(?:https?|status|statuscode|code)(?:/[0-9.]+)?(?:[[:space:]:=_-]*(?:status|code|error|was|is|of)\M)*'
    || '[[:space:]:=_#([-]*)([1-5][0-9]{2})(?![[:alnum:]]|[.,:][0-9])';
  v_kept text[];
  v_one text;
begin
  v_text := regexp_replace(v_text, '"[^"]*"|`[^`]*`|(?<![[:alnum:]])''[^'']*''(?![[:alnum:]])', '<text>', 'g');
  -- What may hold ids and numbers comes before them.
  v_text := regexp_replace(v_text, '\m[a-z][a-z0-9+.-]*://[^[:space:]]+', '<url>', 'g');
  v_text := regexp_replace(v_text, '(?<![[:alnum:]<>])(?:[a-z]:\\[^[:space:]:]+|[~.]{0,2}(?:/[[:alnum:]._@%+~-]+)+/?)', '<path>', 'g');
  v_text := regexp_replace(v_text, '\m[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\M', '<uuid>', 'g');
  v_text := regexp_replace(v_text, '\m[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?)?'
    || '(?: ?(?:z|utc|[+-][0-9]{2}:?(?:[0-9]{2})?)(?![[:alnum:]]))?|\m[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?', '<time>', 'g');
  -- Not found and out of order are two causes: codes stay, in their order.
  v_kept := array(select m[2] from regexp_matches(v_text, v_code, 'g') as m);
  v_text := regexp_replace(v_text, v_code, '\1<code>', 'g');
  -- One placeholder for hexadecimal and decimal: some hexadecimal numbers have no letter.
  v_text := regexp_replace(v_text, '\m(?:0x[0-9a-f]+|(?=[a-f]*[0-9])[0-9a-f]{8,})\M|-?[0-9]+(?:[.,:][0-9]+)*', '<n>', 'g');
  foreach v_one in array v_kept loop
    v_text := regexp_replace(v_text, '<code>', v_one);
  end loop;
  return left(btrim(regexp_replace(v_text, '[[:space:]]+', ' ', 'g')), 200);
end
$$;
comment on function jobforge.normal_error(text) is
  'The first line of an error in lower case, with quoted texts, uuids, times, addresses, paths and numbers as placeholders; '
  'a code behind status, HTTP or code stays.';

create or replace function jobforge.previous_dead_letters(
  p_tenant_id uuid, p_at timestamptz, p_id uuid, p_after timestamptz, p_before timestamptz, p_limit integer)
returns table (id uuid, type text, queue text, status text, class text, error text, created_at timestamptz,
  finished_at timestamptz, fence integer, failures integer, deaths smallint, max_attempts smallint, source text,
  correlation_id text, tags jsonb)
language sql stable
as $$
  select j.id, j.type, j.queue, j.status, jobforge.error_class(j.tenant_id, j.id, j.fence, j.status), j.error, j.created_at,
    j.finished_at, j.fence, j.failures, j.deaths, j.max_attempts, j.source, j.correlation_id, j.tags
  from jobforge.jobs j
  where j.tenant_id = p_tenant_id and j.finished_at is not null and (j.finished_at, j.id) < (p_at, p_id)
    and (p_after is null or j.finished_at >= p_after) and (p_before is null or j.finished_at < p_before)
  order by j.finished_at desc, j.id desc limit p_limit
$$;
comment on function jobforge.previous_dead_letters(uuid, timestamptz, uuid, timestamptz, timestamptz, integer) is
  'The next dead letters before a place, the last to die first; called under the tenant.';

create or replace function jobforge.scan_dead_letters(
  p_tenant_id uuid, p_filter jobforge.job_filter, p_at timestamptz, p_id uuid, p_until timestamptz, p_limit integer)
returns table (finished_at timestamptz, id uuid, matched boolean)
language sql stable
as $$
  select j.finished_at, j.id,
    (p_filter.statuses is null or j.status = any (p_filter.statuses)) and (p_filter.type is null or j.type = p_filter.type)
    and (p_filter.queue is null or j.queue = p_filter.queue) and (p_filter.tag is null or coalesce(j.tags ? p_filter.tag, false))
    and (p_filter.created_after is null or j.created_at >= p_filter.created_after)
    and (p_filter.created_before is null or j.created_at < p_filter.created_before)
    and (p_filter.finished_before is null or j.finished_at < p_filter.finished_before)
    -- Last, because it costs as much as all the others.
    and case when p_filter.fingerprint is null then true else p_filter.fingerprint = jobforge.error_fingerprint(j.type,
      jobforge.error_class(j.tenant_id, j.id, j.fence, j.status), j.error) end
  from jobforge.jobs j
  where j.tenant_id = p_tenant_id and j.finished_at is not null and (j.finished_at, j.id) > (p_at, p_id)
    and j.finished_at >= coalesce(p_filter.finished_after, '-infinity')
    and j.finished_at <= least(p_until, p_filter.finished_before)
  order by j.finished_at, j.id limit p_limit
$$;
comment on function jobforge.scan_dead_letters(uuid, jobforge.job_filter, timestamptz, uuid, timestamptz, integer) is
  'The next dead letters behind a place that had died by p_until, the oldest first, and whether each matches the filter.';

create or replace function jobforge.error_class(p_tenant_id uuid, p_job_id uuid, p_fence integer, p_status text) returns text
language sql stable
as $$
  select p_status || '/' || coalesce((select coalesce(a.error_class, a.status) from jobforge.attempts a
    where a.tenant_id = p_tenant_id and a.job_id = p_job_id and a.number = p_fence), 'unknown')
$$;
comment on function jobforge.error_class(uuid, uuid, integer, text) is
  'How a dead letter ended and its last attempt with it: failed/permanent, dead/retryable, dead/lost.';

create or replace function jobforge.write_cursor(p_at timestamptz, p_id uuid) returns text
language sql immutable
as $$ select (extract(epoch from p_at) * 1000000)::bigint || '_' || p_id $$;
comment on function jobforge.write_cursor(timestamptz, uuid) is 'A place in the order of times and ids, to be handed out.';

create or replace function jobforge.read_cursor(p_cursor text, out at timestamptz, out id uuid)
language plpgsql immutable
as $$
begin
  if p_cursor !~ '^[0-9]{1,16}_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then
    perform jobforge.refuse('JF001', 'cursor_malformed', 'p_cursor is not a cursor of an earlier page');
  end if;
  at := 'epoch'::timestamptz + split_part(p_cursor, '_', 1)::bigint * interval '1 microsecond';
  id := split_part(p_cursor, '_', 2)::uuid;
end
$$;
comment on function jobforge.read_cursor(text) is 'The place that a cursor stands for; what is none is refused.';
grant execute on function jobforge.read_cursor(text), jobforge.write_cursor(timestamptz, uuid) to jf_sys;
