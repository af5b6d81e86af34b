-- owner: jf_fn
-- Large payloads, from the producer's side: say that an object is coming, write it, then enqueue a job that holds it.

create or replace function jobforge.announce_artifact(p_tenant_id uuid, p_ref text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
begin
  perform jobforge.require_tenant(p_tenant_id);
  perform jobforge.keep_artifact(p_tenant_id, p_ref, jobforge.clock());
end
$$;
comment on function jobforge.announce_artifact(uuid, text) is
  'Says that an object is about to be written to the artifact store: for a day it is collected by nobody. Committed before the '
  'object is written, so that one that no job ever holds is found.';
grant execute on function jobforge.announce_artifact(uuid, text) to jf_tenant, jf_operator;

create or replace function jobforge.attach_artifact(p_tenant_id uuid, p_job_id uuid, p_ref text, p_bytes bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_payload jsonb;
begin
  perform jobforge.require_tenant(p_tenant_id);
  select j.payload into v_payload from jobforge.jobs j
  where j.tenant_id = p_tenant_id and j.id = p_job_id for no key update;
  if v_payload is null then
    perform jobforge.refuse('JF007', 'job_unknown', format('attach_artifact: job %s is not known or is over', p_job_id));
  elsif v_payload <> jobforge.artifact_payload(p_ref, p_bytes) then
    perform jobforge.refuse('JF003', 'artifact_mismatch', format('attach_artifact: the payload of job %s is not %s', p_job_id, p_ref));
  end if;
  perform jobforge.hold_artifact(p_tenant_id, p_job_id, 'payload', p_ref, p_bytes, jobforge.clock());
  -- What stands beside a job goes with it when it ends, if the job says that there is something.
  update jobforge.jobs j set noted = true where j.tenant_id = p_tenant_id and j.id = p_job_id and not j.noted;
end
$$;
comment on function jobforge.attach_artifact(uuid, uuid, text, bigint) is
  'Lets a job hold the object that its payload names; called in the transaction that enqueues it, so that no job ever points to '
  'what may be collected.';
grant execute on function jobforge.attach_artifact(uuid, uuid, text, bigint) to jf_tenant, jf_operator;
