//! What the catalogue must and must not show, in every schema, whoever made the object.

use super::verdict::{Verdict, none, works};
use super::{Site, probes};

probes![
    definer_functions_pin_their_search_path,
    function_owners_are_ours_and_bound_by_policies,
    nobody_in_general_may_execute,
    every_table_forces_its_policies,
    no_dangerous_privilege_is_granted,
    views_look_with_their_readers_rights,
    keys_start_with_the_tenant,
    tenants_tables_have_all_their_policies,
    grants_go_to_our_roles_only,
    our_roles_cannot_log_in,
];

/// Runs a query for faults, one text each.
async fn faults(site: &Site, what: &str, sql: &str) -> Verdict {
    let rows = works(what, site.admin.query(sql, &[]).await)?;
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    none(what, &found)
}

/// `pg_temp` last and named: not named it is searched first.
async fn definer_functions_pin_their_search_path(site: &Site) -> Verdict {
    let sql = "select p.oid::regprocedure::text from pg_proc p
        where p.prosecdef and p.pronamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
          and not exists (select from unnest(p.proconfig) as c
            where c ~ '^search_path=.*pg_temp\"?$' and c !~ 'public|user')";
    faults(site, "definer functions without a pinned search_path", sql).await
}

async fn function_owners_are_ours_and_bound_by_policies(site: &Site) -> Verdict {
    let sql = "select format('%s owned by %s', p.oid::regprocedure, r.rolname)
        from pg_proc p join pg_roles r on r.oid = p.proowner
        where p.pronamespace = 'jobforge'::regnamespace
          and (r.rolname not in ('jf_fn', 'jf_sys', 'jf_owner') or r.rolsuper or r.rolbypassrls)
        union all
        select format('table %s owned by %s', c.oid::regclass, r.rolname)
        from pg_class c join pg_roles r on r.oid = c.relowner
        where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')
          and (r.rolname <> 'jf_owner' or r.rolsuper or r.rolbypassrls)";
    faults(site, "owners that no policy binds", sql).await
}

async fn nobody_in_general_may_execute(site: &Site) -> Verdict {
    let sql = "select p.oid::regprocedure::text
        from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
        where p.pronamespace = 'jobforge'::regnamespace and a.grantee = 0";
    faults(site, "functions that PUBLIC may execute", sql).await
}

async fn every_table_forces_its_policies(site: &Site) -> Verdict {
    let sql = "select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
          and not (c.relrowsecurity and c.relforcerowsecurity)";
    faults(site, "tables without forced row-level security", sql).await
}

async fn no_dangerous_privilege_is_granted(site: &Site) -> Verdict {
    let sql =
        "select format('%s on %s to %s', a.privilege_type, c.oid::regclass, coalesce(r.rolname, 'PUBLIC'))
        from pg_class c cross join lateral aclexplode(c.relacl) as a left join pg_roles r on r.oid = a.grantee
        where c.relnamespace = 'jobforge'::regnamespace and a.grantee <> c.relowner
          and (a.privilege_type in ('TRUNCATE', 'REFERENCES', 'TRIGGER') or a.is_grantable
            or (a.privilege_type in ('INSERT', 'UPDATE', 'DELETE') and r.rolname not in ('jf_fn', 'jf_sys')))
        union all
        select format('column %s of %s to %s', t.attname, c.oid::regclass, coalesce(r.rolname, 'PUBLIC'))
        from pg_class c join pg_attribute t on t.attrelid = c.oid cross join lateral aclexplode(t.attacl) as a
        left join pg_roles r on r.oid = a.grantee
        where c.relnamespace = 'jobforge'::regnamespace
          and (a.privilege_type <> 'SELECT' or t.attname in ('payload', 'result', 'payload_hash', 'settings', 'env', 'sealed', 'secret_sha256'))";
    faults(site, "privileges that nobody needs", sql).await
}

/// A view looks with its owner's rights unless it is told otherwise; a materialized one keeps what it saw.
async fn views_look_with_their_readers_rights(site: &Site) -> Verdict {
    let sql = "select c.oid::regclass::text from pg_class c
        where c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
          and (c.relkind = 'm' or (c.relkind = 'v'
            and not coalesce('security_invoker=true' = any (c.reloptions), false)))";
    faults(site, "views with their owner's rights", sql).await
}

/// Otherwise one tenant's key could collide with another's, and tell of it. `leases` names a worker's tenant,
/// `limited_runs` and `pending_counts` count for limits, `api_keys` says for whom a key speaks; their rows are the system's.
async fn keys_start_with_the_tenant(site: &Site) -> Verdict {
    let sql = "select i.indexrelid::regclass::text
        from pg_index i join pg_class c on c.oid = i.indrelid
        join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id' and not t.attisdropped
        where c.relnamespace = 'jobforge'::regnamespace and i.indisunique and i.indkey[0] <> t.attnum
          and c.relname not in ('logins', 'leases', 'limited_runs', 'api_keys')
          and not (c.relname in ('turn_candidates', 'key_turns') and t.attnum = any (i.indkey))
        union all
        select k.conname from pg_constraint k
        where k.connamespace = 'jobforge'::regnamespace and k.contype = 'f'";
    faults(site, "keys that do not start with tenant_id", sql).await
}

/// Each policy by its name, so that a new table with tenants' rows must have them, too. Only what takes away from
/// everybody, and shows nobody anything, may be for everybody.
async fn tenants_tables_have_all_their_policies(site: &Site) -> Verdict {
    let sql = "select format('%s lacks %s', c.oid::regclass, w.policy)
        from pg_class c
        join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id' and not t.attisdropped
        cross join (values ('tenant_rows', true), ('login_bound', false), ('sys_all', true)) as w(policy, permissive)
        where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and c.relname not in ('logins', 'leases', 'turn_candidates', 'key_turns', 'limited_runs', 'pending_counts', 'api_keys')
          and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = w.policy
            and p.polcmd = '*' and p.polpermissive = w.permissive)
        union all
        select format('%s has a policy for everybody: %s', p.polrelid::regclass, p.polname)
        from pg_policy p
        where 0 = any (p.polroles) and not (p.polname in ('sound', 'sound_new') and not p.polpermissive and p.polqual is null)
        union all
        select format('partition %s has a policy of its own: %s', p.polrelid::regclass, p.polname)
        from pg_policy p join pg_class c on c.oid = p.polrelid where c.relispartition";
    faults(site, "policies that lack or are too many", sql).await
}

async fn grants_go_to_our_roles_only(site: &Site) -> Verdict {
    let sql = "select format('%s on %s to %s', a.privilege_type, o.what, coalesce(r.rolname, 'PUBLIC'))
        from (
          select 'schema ' || n.nspname, n.nspacl, n.nspowner from pg_namespace n where n.nspname = 'jobforge'
          union all
          select c.oid::regclass::text, c.relacl, c.relowner from pg_class c where c.relnamespace = 'jobforge'::regnamespace
          union all
          select 'database', d.datacl, d.datdba from pg_database d where d.datname = current_database()
        ) as o(what, acl, owner)
        cross join lateral aclexplode(o.acl) as a left join pg_roles r on r.oid = a.grantee
        where a.grantee <> o.owner and not (o.what = 'database' and a.privilege_type = 'CONNECT')
          and coalesce(r.rolname, '') not in ('jf_owner', 'jf_fn', 'jf_sys', 'jf_tenant', 'jf_worker', 'jf_operator')
        union all
        select format('CREATE on the database to %s', r.rolname) from pg_roles r
        where r.rolname like 'jf\\_%' and has_database_privilege(r.rolname, current_database(), 'create')";
    faults(site, "grants to others", sql).await
}

/// Nobody can be one of them, and none of them can be more than it is.
async fn our_roles_cannot_log_in(site: &Site) -> Verdict {
    let sql = "select r.rolname::text from pg_roles r
        where r.rolname in ('jf_owner', 'jf_fn', 'jf_sys', 'jf_tenant', 'jf_worker', 'jf_operator')
          and (r.rolcanlogin or r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication)
        union all
        select format('%s is a member of %s', m.rolname, g.rolname)
        from pg_auth_members a join pg_roles g on g.oid = a.roleid join pg_roles m on m.oid = a.member
        where g.rolname in ('jf_owner', 'jf_fn', 'jf_sys') and not m.rolsuper
          and m.rolname in ('jf_owner', 'jf_fn', 'jf_sys', 'jf_tenant', 'jf_worker', 'jf_operator')";
    faults(site, "roles that can do more than they should", sql).await
}
