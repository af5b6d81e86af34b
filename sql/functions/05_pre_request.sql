-- owner: jf_fn
-- Behind PostgREST: which tenant a request acts for. Its login is one for all callers, so the tenant is in the token.

create or replace function jobforge.pre_request() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  -- What a session may do is asked of its login: one that can become an operator or a worker would lend every caller that.
  if pg_has_role(session_user, 'jf_operator', 'member') or pg_has_role(session_user, 'jf_worker', 'member') then
    perform jobforge.refuse('JF009', 'login_too_powerful',
      format('login %s can become an operator or a worker: it must not serve requests', session_user));
  end if;
  v_tenant := jobforge.claimed_tenant(nullif(current_setting('request.jwt.claims', true), ''));
  -- For this transaction alone: the connection goes on to somebody else's request.
  perform set_config('app.tenant_id', v_tenant::text, true);
  perform jobforge.require_tenant(v_tenant);
end
$$;
comment on function jobforge.pre_request() is
  'For PostgREST''s db-pre-request: sets the transaction''s tenant from the verified token''s app_metadata.tenant_id, and from '
  'nothing else; refuses a request without one.';
grant execute on function jobforge.pre_request() to jf_tenant;

create or replace function jobforge.claimed_tenant(p_claims text) returns uuid
language plpgsql immutable
as $$
declare
  v_claim jsonb;
begin
  begin
    -- user_metadata looks alike, and users write it themselves.
    v_claim := p_claims::jsonb -> 'app_metadata' -> 'tenant_id';
  exception when data_exception then
    perform jobforge.refuse('JF009', 'claim_malformed', 'request.jwt.claims is no JSON');
  end;
  if v_claim is null or v_claim = 'null' then
    perform jobforge.refuse('JF009', 'claim_missing', 'the token has no claim app_metadata.tenant_id');
  elsif v_claim #>> '{}' !~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' then
    perform jobforge.refuse('JF009', 'claim_malformed', 'the claim app_metadata.tenant_id is no UUID');
  end if;
  return (v_claim #>> '{}')::uuid;
end
$$;
comment on function jobforge.claimed_tenant(text) is
  'The tenant in the claims of a verified token; one that is missing or no UUID is refused.';
