-- owner: jf_sys
-- What every other function stands on: the clock, ids, the refusals, and who the caller is.

create or replace function jobforge.clock() returns timestamptz
language sql volatile
as $$ select clock_timestamp() $$;
comment on function jobforge.clock() is 'The only clock: tests replace this function, nobody can set it.';
grant execute on function jobforge.clock() to jf_fn, jf_owner, jf_tenant, jf_worker, jf_operator;

create or replace function jobforge.refuse(p_code text, p_reason text, p_message text) returns void
language plpgsql immutable
as $$
begin
  raise exception '%', p_message using errcode = p_code, detail = p_reason;
end
$$;
comment on function jobforge.refuse(text, text, text) is
  'Raises an error of class JF; the stable reason stands in DETAIL.';
grant execute on function jobforge.refuse(text, text, text) to jf_fn, jf_owner;

create or replace function jobforge.make_id(p_base bigint, p_tail text, p_position integer) returns uuid
language sql immutable
as $$ select (overlay('0' || to_hex(p_base + p_position) placing '7' from 13 for 0) || p_tail)::uuid $$;
comment on function jobforge.make_id(bigint, text, integer) is
  'A UUID of version 7: 48 bits of milliseconds and 12 bits below them from p_base + p_position, so that a batch keeps its '
  'order and its ids differ; 62 random bits from p_tail, one for the batch. One expression, so that the planner inlines it.';
grant execute on function jobforge.make_id(bigint, text, integer) to jf_fn;

create or replace function jobforge.id_base(p_now timestamptz) returns bigint
language sql stable
as $$ select (date_part('epoch', p_now) * 4096000)::bigint $$;
comment on function jobforge.id_base(timestamptz) is 'Time in 4096ths of a millisecond, what make_id counts in.';
grant execute on function jobforge.id_base(timestamptz) to jf_fn;

create or replace function jobforge.id_tail() returns text
language sql volatile
as $$ select substr(gen_random_uuid()::text, 20) $$;
comment on function jobforge.id_tail() is 'What tells the ids of two batches of the same moment apart. Costs more than the rest of an id.';
grant execute on function jobforge.id_tail() to jf_fn;

create or replace function jobforge.new_id(p_now timestamptz) returns uuid
language sql volatile
as $$
  select overlay(gen_random_uuid()::text placing
    overlay('0' || to_hex(jobforge.id_base(p_now)) placing '7' from 13 for 0) from 1 for 19)::uuid
$$;
comment on function jobforge.new_id(timestamptz) is
  'The id of a job that comes alone, as make_id would make it at position 0, with fewer operators: each is set up for every call.';
grant execute on function jobforge.new_id(timestamptz) to jf_fn;

create or replace function jobforge.id_time(p_id uuid) returns timestamptz
language sql immutable
as $$
  -- The nearest microsecond, from the middle between the places 0 and 1: an id of a batch of one is a count ahead.
  select to_timestamp(0) + interval '1 microsecond' * (
    (('x' || overlay(substr(replace(p_id::text, '-', ''), 1, 16) placing '' from 13 for 1))::bit(60)::bigint * 125 + 194) / 512)
$$;
comment on function jobforge.id_time(uuid) is
  'The moment that the id of a single job was made from, to the microsecond, of which an id counts four.';
grant execute on function jobforge.id_time(uuid) to jf_fn;

create or replace function jobforge.require_tenant(p_tenant_id uuid) returns void
language plpgsql stable
as $$
declare
  v_bound boolean;
  v_known boolean;
begin
  if p_tenant_id is null then
    perform jobforge.refuse('JF001', 'tenant_missing', 'p_tenant_id is null');
  end if;
  if p_tenant_id is distinct from nullif(current_setting('app.tenant_id', true), '')::uuid then
    perform jobforge.refuse('JF009', 'tenant_mismatch',
      'p_tenant_id is not the tenant of this transaction (set app.tenant_id first)');
  end if;
  select exists (select from jobforge.logins l where l.role_name = session_user::text
                 and (l.tenant_id is null or l.tenant_id = p_tenant_id)),
    exists (select from jobforge.tenants t where t.id = p_tenant_id)
  into v_bound, v_known;
  if not v_bound then
    perform jobforge.refuse('JF009', 'login_not_bound', format('login %s may not act for this tenant', session_user));
  end if;
  if not v_known then
    perform jobforge.refuse('JF007', 'tenant_unknown', format('tenant %s is not known', p_tenant_id));
  end if;
end
$$;
comment on function jobforge.require_tenant(uuid) is
  'Refuses a call whose tenant is missing, is not the one of the transaction, is not the login''s, or is not known.';
grant execute on function jobforge.require_tenant(uuid) to jf_fn;

create or replace function jobforge.login_tenant() returns uuid
language plpgsql stable
as $$
declare
  v_login record;
  -- Empty where an earlier transaction of the session had set it: that is as good as not set.
  v_narrowed text := nullif(current_setting('app.bound_tenant', true), '');
begin
  select l.tenant_id, true as known into v_login from jobforge.logins l where l.role_name = session_user::text;
  if v_login.known is null then
    perform jobforge.refuse('JF009', 'login_not_bound', format('login %s is not registered', session_user));
  end if;
  if v_narrowed is not null then
    return jobforge.narrowed_tenant(v_login.tenant_id, v_narrowed);
  end if;
  return v_login.tenant_id;
end
$$;
comment on function jobforge.login_tenant() is
  'The tenant a worker''s login is bound to; null for a trusted one; an unknown login is refused. A trusted login that serves '
  'others narrows itself to the tenant in app.bound_tenant, for a transaction.';

create or replace function jobforge.narrowed_tenant(p_login_tenant_id uuid, p_narrowed text) returns uuid
language plpgsql immutable
as $$
begin
  if p_narrowed !~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' then
    perform jobforge.refuse('JF009', 'bound_tenant_malformed', 'app.bound_tenant is no UUID');
  elsif p_login_tenant_id <> p_narrowed::uuid then
    perform jobforge.refuse('JF009', 'tenant_mismatch', 'app.bound_tenant is not the tenant of this login');
  end if;
  return p_narrowed::uuid;
end
$$;
comment on function jobforge.narrowed_tenant(uuid, text) is
  'The tenant that app.bound_tenant narrows a login to: never another than its own, and never all.';

-- Rights to execute tell an operator from others.
drop function if exists jobforge.require_operator();
