//! Are tenants kept apart: by roles without power, by row-level security on every table, and in fact?

use jobforge_core::Error;
use tokio_postgres::Client;

use super::Check;
use super::server::failed;

pub(super) async fn checks(client: &Client) -> Vec<Check> {
    vec![
        Check::made("roles", roles(client).await),
        Check::made("row security", row_security(client).await),
        Check::made("isolation probe", probe(client).await),
    ]
}

async fn roles(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "roles";
    const ROLES: [&str; 6] = ["jf_owner", "jf_fn", "jf_sys", "jf_tenant", "jf_worker", "jf_operator"];
    let sql = "select rolname::text, rolsuper or rolbypassrls, rolcanlogin from pg_catalog.pg_roles
               where rolname in ('jf_owner', 'jf_fn', 'jf_sys', 'jf_tenant', 'jf_worker', 'jf_operator')";
    let rows = client.query_typed(sql, &[]).await.map_err(|source| failed("roles", source))?;
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let missing: Vec<&str> =
        ROLES.into_iter().filter(|role| !found.iter().any(|name| name == role)).collect();
    let mighty: Vec<String> = rows.iter().filter(|row| row.get(1)).map(|row| row.get(0)).collect();
    let logins: Vec<String> = rows.iter().filter(|row| row.get(2)).map(|row| row.get(0)).collect();
    Ok(if !missing.is_empty() {
        Check::fail(NAME, format!("missing: {}", missing.join(", "))).advice("jobforge migrate")
    } else if !mighty.is_empty() {
        Check::fail(NAME, format!("not bound by row-level security: {}", mighty.join(", ")))
            .advice("alter role … nosuperuser nobypassrls")
    } else if !logins.is_empty() {
        Check::warn(NAME, format!("may log in: {}", logins.join(", "))).advice("alter role … nologin")
    } else {
        Check::ok(NAME, "six roles, none of them a superuser, none bypassing row-level security")
    })
}

/// The records of the migrations hold no tenant's data.
async fn row_security(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "row security";
    let sql = "select c.relname::text, c.relrowsecurity and c.relforcerowsecurity
               from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
               where n.nspname = 'jobforge' and c.relkind in ('r', 'p')
                 and c.relname not in ('schema_migrations', 'schema_functions') order by 1";
    let rows = client.query_typed(sql, &[]).await.map_err(|source| failed("row security", source))?;
    let open: Vec<String> = rows.iter().filter(|row| !row.get::<_, bool>(1)).map(|row| row.get(0)).collect();
    Ok(if open.is_empty() {
        Check::ok(NAME, format!("enabled and forced on all {} tables", rows.len()))
    } else {
        Check::fail(NAME, format!("not enabled and forced on {}", open.join(", ")))
            .advice("alter table jobforge.… enable row level security, force row level security")
    })
}

/// Looks without naming a tenant: nothing may be seen.
async fn probe(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "isolation probe";
    let sql = "select exists (select from jobforge.jobs) or exists (select from jobforge.job_history)";
    let row = client.query_typed_one(sql, &[]).await.map_err(|source| failed("isolation probe", source))?;
    Ok(if row.get(0) {
        Check::fail(NAME, "a session that names no tenant sees jobs")
            .advice("stop: tenants can see one another")
    } else {
        Check::ok(NAME, "a session that names no tenant sees no job")
    })
}
