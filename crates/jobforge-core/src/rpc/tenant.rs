//! Tenants, their weights, limits and time zones, and which login acts for whom.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::limit::{Clear, Hold};
use super::wire::Columns;
use crate::error::Error;

/// A tenant to be made known or changed. What is `None` stays as it is, or takes the default when the tenant is
/// new.
#[derive(Clone, Debug, Default)]
pub struct Tenant {
    /// Its id.
    pub id: Uuid,
    /// What people call it; a new one is called by its id.
    pub name: Option<String>,
    /// Its share of each turn beside the others', 1 to 100; a new one has 1.
    pub weight: Option<i32>,
    /// How many of its jobs may wait.
    pub max_pending: Option<i32>,
    /// How many of its jobs may run at a time.
    pub max_in_flight: Option<i32>,
    /// How many of its jobs may start in a second.
    pub rate_per_second: Option<f64>,
    /// How many of them at once, after a time with none.
    pub rate_burst: Option<i32>,
    /// How long history is kept, whatever the definitions say: `day`, `week`, `month` or `year`.
    pub retention: Option<String>,
    /// What its schedules go by, e.g. `Europe/Berlin`; a new one has `UTC`.
    pub time_zone: Option<String>,
    /// What is taken away.
    pub clear: Vec<Clear>,
}

impl Tenant {
    /// The tenant of this id with nothing said about it.
    pub fn new(id: Uuid) -> Tenant {
        Tenant { id, ..Tenant::default() }
    }

    /// The tenant of this id under a name.
    pub fn named(id: Uuid, name: impl Into<String>) -> Tenant {
        Tenant { name: Some(name.into()), ..Tenant::new(id) }
    }
}

/// A tenant as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListedTenant {
    /// Its id.
    pub id: Uuid,
    /// What people call it.
    pub name: String,
    /// Its share of each turn.
    pub weight: i32,
    /// How many of its jobs may wait.
    pub max_pending: Option<i32>,
    /// How many of its jobs may run at a time.
    pub max_in_flight: Option<i32>,
    /// How many of its jobs may start in a second.
    pub rate_per_second: Option<f64>,
    /// How many of them at once.
    pub rate_burst: Option<i32>,
    /// How long history is kept, whatever the definitions say.
    pub retention: Option<String>,
    /// What its schedules go by.
    pub time_zone: String,
    /// Since when it is known.
    pub created_at: Timestamp,
    /// The pause that holds it.
    pub pause: Option<Hold>,
}

/// Makes a tenant known or changes it.
pub async fn upsert_tenant<C: GenericClient>(c: &C, tenant: &Tenant) -> Result<(), Error> {
    c.query_typed_one(
        "select jobforge.upsert_tenant(p_tenant_id => $1, p_name => $2, p_weight => $3, p_max_pending => $4,
           p_max_in_flight => $5, p_rate_per_second => $6, p_rate_burst => $7, p_retention => $8, p_clear => $9,
           p_time_zone => $10)",
        &[
            (&tenant.id, Type::UUID),
            (&tenant.name, Type::TEXT),
            (&tenant.weight, Type::INT4),
            (&tenant.max_pending, Type::INT4),
            (&tenant.max_in_flight, Type::INT4),
            (&tenant.rate_per_second, Type::FLOAT8),
            (&tenant.rate_burst, Type::INT4),
            (&tenant.retention, Type::TEXT),
            (&Clear::names(&tenant.clear), Type::TEXT_ARRAY),
            (&tenant.time_zone, Type::TEXT),
        ],
    )
    .await
    .map_err(|error| Error::call("upsert_tenant", error))?;
    Ok(())
}

/// A page of tenants in the order of their ids, those after `after`.
pub async fn list_tenants<C: GenericClient>(
    c: &C,
    limit: i32,
    after: Option<Uuid>,
) -> Result<Vec<ListedTenant>, Error> {
    look(c, limit, after, None).await
}

/// The tenant of this id, if there is one.
pub async fn get_tenant<C: GenericClient>(c: &C, id: Uuid) -> Result<Option<ListedTenant>, Error> {
    Ok(look(c, 1, None, Some(id)).await?.pop())
}

/// Lets a login act for one tenant, or, without one, trusts it to name any.
pub async fn bind_login<C: GenericClient>(c: &C, role: &str, tenant: Option<Uuid>) -> Result<(), Error> {
    let sql = "select jobforge.bind_login(p_role => $1, p_tenant_id => $2)";
    c.query_typed_one(sql, &[(&role, Type::TEXT), (&tenant, Type::UUID)])
        .await
        .map_err(|error| Error::call("bind_login", error))?;
    Ok(())
}

async fn look<C: GenericClient>(
    c: &C,
    limit: i32,
    after: Option<Uuid>,
    id: Option<Uuid>,
) -> Result<Vec<ListedTenant>, Error> {
    const OPERATION: &str = "list_tenants";
    let rows = c
        .query_typed(
            "select t.id, t.name, t.weight, t.max_pending, t.max_in_flight, t.rate_per_second, t.rate_burst,
               t.retention, t.time_zone, t.created_at, t.paused_at, t.paused_until, t.pause_reason, t.paused_by
             from jobforge.list_tenants(p_limit => $1, p_after => $2, p_id => $3) as t",
            &[(&limit, Type::INT4), (&after, Type::UUID), (&id, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row: &Row| read_tenant(&mut Columns::of(OPERATION, row))).collect()
}

fn read_tenant(columns: &mut Columns<'_>) -> Result<ListedTenant, Error> {
    Ok(ListedTenant {
        id: columns.take()?,
        name: columns.take()?,
        weight: columns.take()?,
        max_pending: columns.take()?,
        max_in_flight: columns.take()?,
        rate_per_second: columns.take()?,
        rate_burst: columns.take()?,
        retention: columns.take()?,
        time_zone: columns.take()?,
        created_at: columns.take()?,
        pause: Hold::read(columns)?,
    })
}
