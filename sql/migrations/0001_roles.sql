-- Roles of JobForge. Cluster-wide, so every statement tolerates a role that exists.
-- Needs CREATEROLE, not superuser; the migrating login becomes a member of the three owners.

do $$
declare
  v_role text;
begin
  foreach v_role in array array['jf_owner', 'jf_fn', 'jf_sys', 'jf_tenant', 'jf_worker', 'jf_operator'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = v_role) then
      begin
        execute format('create role %I nologin', v_role);
      exception when duplicate_object or unique_violation then
        null; -- another database of this cluster migrates at the same time
      end;
    end if;
  end loop;
  foreach v_role in array array['jf_owner', 'jf_fn', 'jf_sys'] loop
    -- From Postgres 16 on, whoever makes a role is a member that may grant it but not use it.
    if not pg_catalog.pg_has_role(current_user, v_role, 'usage') then
      execute format('grant %I to %I', v_role, current_user);
    end if;
  end loop;
  execute format('revoke temporary on database %I from public', current_database());
  execute format('grant create on database %I to jf_owner', current_database());
end
$$;

create schema jobforge authorization jf_owner;

set local role jf_owner;
revoke all on schema jobforge from public;
grant usage on schema jobforge to jf_fn, jf_sys, jf_tenant, jf_worker, jf_operator;
grant create on schema jobforge to jf_fn, jf_sys;
reset role;

-- Functions made by these roles start without EXECUTE for everybody.
alter default privileges for role jf_owner revoke execute on functions from public;
alter default privileges for role jf_fn revoke execute on functions from public;
alter default privileges for role jf_sys revoke execute on functions from public;

do $$
begin
  execute format('revoke create on database %I from jf_owner', current_database());
end
$$;
