-- owner: jf_fn
-- A job's log lines in pages, for whoever reads along or reads much. Under the tenant, subject to row-level security.

create or replace function jobforge.list_logs(
  p_tenant_id uuid, p_job_id uuid, p_number integer default null, p_after_number integer default null,
  p_after_line integer default null, p_limit integer default 1000)
returns table (number integer, line integer, at timestamptz, level text, message text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  -- Within one attempt a line is a place; across attempts it needs its attempt's number.
  v_number integer := coalesce(p_after_number, p_number, 0);
  v_line integer := coalesce(p_after_line, case when p_after_number is null then 0 else 2147483647 end);
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.require_limit(p_limit);
  if p_after_line is not null and p_after_number is null and p_number is null then
    perform jobforge.refuse('JF001', 'position_malformed', format('list_logs of job %s: p_after_line needs the number of its attempt',
      p_job_id));
  end if;
  return query
  (select l.number, l.line_no, l.at, l.level, l.message from jobforge.job_logs l
   where l.tenant_id = p_tenant_id and l.job_id = p_job_id and (l.number, l.line_no) > (v_number, v_line)
     and (p_number is null or l.number = p_number)
   order by l.number, l.line_no limit p_limit)
  union all
  (select h.number, h.line_no, h.at, h.level, h.message from jobforge.log_history h
   where h.tenant_id = p_tenant_id and h.job_id = p_job_id and (h.number, h.line_no) > (v_number, v_line)
     and (p_number is null or h.number = p_number)
   order by h.number, h.line_no limit p_limit)
  order by 1, 2 limit p_limit;
  if not found and not exists (select from jobforge.jobs j where j.tenant_id = p_tenant_id and j.id = p_job_id)
      and not exists (select from jobforge.job_history h where h.tenant_id = p_tenant_id and h.id = p_job_id) then
    perform jobforge.refuse('JF007', 'job_unknown', format('list_logs: job %s is not known', p_job_id));
  end if;
end
$$;
comment on function jobforge.list_logs(uuid, uuid, integer, integer, integer, integer) is
  'A page of a job''s log lines in their order, live or over: of all its attempts or of p_number, after line p_after_line of '
  'attempt p_after_number (p_number where that is given). A page shorter than p_limit is the last one for now.';
grant execute on function jobforge.list_logs(uuid, uuid, integer, integer, integer, integer) to jf_tenant, jf_operator;
