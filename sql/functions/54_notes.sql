-- owner: jf_sys
-- Notes of a running job: progress and log lines, beside the job's row, fenced like every report. What a worker tells on the
-- connection of all its reports waits only a moment for somebody else's lock: it is refused with 55P03 and told again later.

create or replace function jobforge.report_progress(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_percent real, p_message text default '')
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set lock_timeout = '100ms'
as $$
declare
  v_now timestamptz := jobforge.clock();
begin
  if p_percent is null or p_percent not between 0 and 100 then
    perform jobforge.refuse('JF001', 'percent_out_of_range', 'p_percent must be 0 to 100');
  end if;
  perform jobforge.hold_job(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  insert into jobforge.job_progress as p (tenant_id, job_id, number, percent, message, at)
  values (p_tenant_id, p_job_id, p_fence, p_percent,
    left(jobforge.redact_text(coalesce(p_message, ''), jobforge.job_secrets(p_tenant_id, p_job_id)), 1000), v_now)
  on conflict (tenant_id, job_id) do update
  set number = excluded.number, percent = excluded.percent, message = excluded.message, at = excluded.at;
  return true;
end
$$;
comment on function jobforge.report_progress(uuid, uuid, uuid, integer, real, text) is
  'Tells how far a running job is; a stale lease or fence is refused.';
grant execute on function jobforge.report_progress(uuid, uuid, uuid, integer, real, text) to jf_worker;

create or replace function jobforge.append_log(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_levels text[], p_messages text[])
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set lock_timeout = '100ms'
as $$
declare
  v_now timestamptz := jobforge.clock();
  v_last integer;
  v_room integer;
  v_secrets text[];
begin
  perform jobforge.require_columns(cardinality(p_messages), coalesce(cardinality(p_levels), 0));
  if exists (select from unnest(p_levels) as l where l is null or l not in ('debug', 'info', 'warn', 'error')) then
    perform jobforge.refuse('JF001', 'level_unknown', 'a level is debug, info, warn or error');
  end if;
  perform jobforge.hold_job(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);
  select coalesce(max(l.line_no), 0) into v_last from jobforge.job_logs l
  where l.tenant_id = p_tenant_id and l.job_id = p_job_id and l.number = p_fence;
  v_room := 10000 - v_last;
  v_secrets := jobforge.job_secrets(p_tenant_id, p_job_id);
  insert into jobforge.job_logs (tenant_id, job_id, number, line_no, at, level, message)
  select p_tenant_id, p_job_id, p_fence, v_last + u.o, v_now, u.level,
    left(jobforge.redact_text(coalesce(u.message, ''), v_secrets), 4096)
  from unnest(p_levels, p_messages) with ordinality as u(level, message, o) where u.o <= v_room;
  if v_room >= 0 and v_room < cardinality(p_messages) then
    insert into jobforge.job_logs (tenant_id, job_id, number, line_no, at, level, message)
    values (p_tenant_id, p_job_id, p_fence, 10001, v_now, 'warn', 'the log of this attempt is full: later lines are dropped');
  end if;
  return greatest(least(v_room, cardinality(p_messages)), 0);
end
$$;
comment on function jobforge.append_log(uuid, uuid, uuid, integer, text[], text[]) is
  'Appends log lines to a running attempt, 10000 at most; tells how many were kept.';
grant execute on function jobforge.append_log(uuid, uuid, uuid, integer, text[], text[]) to jf_worker;

create or replace function jobforge.hold_job(
  p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
  v_noted boolean;
begin
  if jobforge.lease_lives(p_lease_id, p_now) then
    select j.noted into v_noted from jobforge.jobs j
    where j.tenant_id = p_tenant_id and j.id = p_job_id and j.fence = p_fence and j.lease_id = p_lease_id
    for no key update;
  end if;
  if v_noted is null then
    perform jobforge.refuse_stale(p_lease_id, p_tenant_id, p_job_id, p_fence, p_now);
  elsif not v_noted then
    update jobforge.jobs j set noted = true where j.tenant_id = p_tenant_id and j.id = p_job_id;
  end if;
end
$$;
comment on function jobforge.hold_job(uuid, uuid, uuid, integer, timestamptz) is
  'Locks a running job for its holder and marks that it has notes to take along when it ends.';

create or replace function jobforge.job_secrets(p_tenant_id uuid, p_job_id uuid) returns text[]
language plpgsql stable
as $$
begin
  return (select jobforge.redacted_values(j.payload, d.redact || d.write_only)
          from jobforge.jobs j join jobforge.definitions d on d.key = j.type
          where j.tenant_id = p_tenant_id and j.id = p_job_id and (d.redact <> '{}' or d.write_only <> '{}'));
end
$$;
comment on function jobforge.job_secrets(uuid, uuid) is
  'What of a live job''s payload must not stand in its errors, logs, tails and progress; null where its type redacts nothing.';
