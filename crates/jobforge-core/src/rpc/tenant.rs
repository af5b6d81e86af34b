//! Tenants, and which login acts for whom.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::Error;

/// Makes a tenant known or renames it.
pub async fn upsert_tenant<C: GenericClient>(c: &C, tenant: Uuid, name: &str) -> Result<(), Error> {
    let sql = "select jobforge.upsert_tenant(p_tenant_id => $1, p_name => $2)";
    c.query_typed_one(sql, &[(&tenant, Type::UUID), (&name, Type::TEXT)])
        .await
        .map_err(|error| Error::call("upsert_tenant", error))?;
    Ok(())
}

/// Lets a login act for one tenant, or, without one, trusts it to name any.
pub async fn bind_login<C: GenericClient>(c: &C, role: &str, tenant: Option<Uuid>) -> Result<(), Error> {
    let sql = "select jobforge.bind_login(p_role => $1, p_tenant_id => $2)";
    c.query_typed_one(sql, &[(&role, Type::TEXT), (&tenant, Type::UUID)])
        .await
        .map_err(|error| Error::call("bind_login", error))?;
    Ok(())
}
