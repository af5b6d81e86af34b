//! The audit log: who did what to which subject.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::job::Payload;
use super::wire::{Columns, Json, clean};
use crate::error::Error;

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `job`, `bulk`, `queue`, `tenant`, `definition`, `login`, `connector_config`, `api_key`, …
    pub kind: String,
    /// Which one.
    pub id: String,
}

impl Subject {
    /// The subject of this kind and id.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Subject {
        Subject { kind: kind.into(), id: id.into() }
    }
}

/// Which entries; what is `None` is not asked.
#[derive(Clone, Debug)]
pub struct AuditFilter {
    /// About subjects of this kind.
    pub subject_kind: Option<String>,
    /// About this one of them.
    pub subject_id: Option<String>,
    /// By this login or credential.
    pub actor: Option<String>,
    /// At or after.
    pub after: Option<Timestamp>,
    /// Before.
    pub before: Option<Timestamp>,
    /// The most entries of the page, 1 to 1000.
    pub limit: i32,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl Default for AuditFilter {
    fn default() -> AuditFilter {
        AuditFilter {
            subject_kind: None,
            subject_id: None,
            actor: None,
            after: None,
            before: None,
            limit: 50,
            cursor: None,
        }
    }
}

/// One entry.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Whose log it stands in; the system's own is that of tenant 0.
    pub tenant_id: Uuid,
    /// The entry.
    pub id: Uuid,
    /// When.
    pub at: Timestamp,
    /// The database's login that did it.
    pub actor: String,
    /// For whom, as that login says: as trustworthy as the login.
    pub credential: Option<String>,
    /// The request it belongs to, as that login says.
    pub request_id: Option<String>,
    /// What was done, e.g. `cancel`.
    pub action: String,
    /// The kind of what it was done to.
    pub subject_kind: Option<String>,
    /// To which one.
    pub subject_id: Option<String>,
    /// The job concerned.
    pub job_id: Option<Uuid>,
    /// What else there is to know, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub detail: Payload,
}

/// Entries, newest first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// Where the next page starts, if there may be one.
    pub next_cursor: Option<String>,
    /// Whether the search looked at everything it had to: if not, the page is a partial one.
    pub complete: bool,
}

/// Writes down what no function writes down itself, e.g. that a super-admin acts for a tenant. Without a tenant it is
/// the system's.
pub async fn record_audit<C: GenericClient>(
    c: &C,
    tenant: Option<Uuid>,
    action: &str,
    subject: Option<&Subject>,
    detail: &Payload,
) -> Result<(), Error> {
    c.query_typed_one(
        "select jobforge.record_audit(p_tenant_id => $1, p_action => $2, p_subject_kind => $3, p_subject_id => $4,
           p_detail => $5)",
        &[
            (&tenant, Type::UUID),
            (&clean(action), Type::TEXT),
            (&subject.map(|subject| clean(&subject.kind)), Type::TEXT),
            (&subject.map(|subject| clean(&subject.id)), Type::TEXT),
            (&Json::from(detail), Type::JSONB),
        ],
    )
    .await
    .map_err(|error| Error::call("record_audit", error))?;
    Ok(())
}

/// A page of a tenant's audit log, newest first.
pub async fn list_audit<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    filter: &AuditFilter,
) -> Result<AuditPage, Error> {
    let sql = "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
        select t.tenant::uuid, a.id, a.at, a.actor, a.credential, a.request_id, a.action, a.subject_kind,
          a.subject_id, a.job_id, a.detail, a.next_cursor, a.complete
        from t cross join lateral jobforge.list_audit(p_tenant_id => t.tenant::uuid, p_subject_kind => $2,
          p_subject_id => $3, p_actor => $4, p_after => $5, p_before => $6, p_limit => $7, p_cursor => $8) as a";
    list(c, ("list_audit", sql), Some(tenant), filter).await
}

/// A page of everybody's audit log, or of one tenant's, newest first. For operators.
pub async fn list_system_audit<C: GenericClient>(
    c: &C,
    tenant: Option<Uuid>,
    filter: &AuditFilter,
) -> Result<AuditPage, Error> {
    let sql = "select a.tenant_id, a.id, a.at, a.actor, a.credential, a.request_id, a.action, a.subject_kind,
          a.subject_id, a.job_id, a.detail, a.next_cursor, a.complete
        from jobforge.list_system_audit(p_tenant_id => $1, p_subject_kind => $2, p_subject_id => $3,
          p_actor => $4, p_after => $5, p_before => $6, p_limit => $7, p_cursor => $8) as a";
    list(c, ("list_system_audit", sql), tenant, filter).await
}

/// Both lists are asked and answer in one way.
async fn list<C: GenericClient>(
    c: &C,
    (operation, sql): (&'static str, &str),
    tenant: Option<Uuid>,
    filter: &AuditFilter,
) -> Result<AuditPage, Error> {
    let params: [(&(dyn ToSql + Sync), Type); 8] = [
        (&tenant, Type::UUID),
        (&filter.subject_kind, Type::TEXT),
        (&filter.subject_id, Type::TEXT),
        (&filter.actor, Type::TEXT),
        (&filter.after, Type::TIMESTAMPTZ),
        (&filter.before, Type::TIMESTAMPTZ),
        (&filter.limit, Type::INT4),
        (&filter.cursor, Type::TEXT),
    ];
    let rows = c.query_typed(sql, &params).await.map_err(|error| Error::call(operation, error))?;
    let (end, rows) = rows.split_last().ok_or_else(|| Error::shape(operation, "no rows"))?;
    let entries = rows.iter().map(|row| read_entry(operation, row)).collect::<Result<_, _>>()?;
    let mut columns = Columns::of(operation, end).skip(11);
    Ok(AuditPage { entries, next_cursor: columns.take()?, complete: columns.take()? })
}

fn read_entry(operation: &'static str, row: &Row) -> Result<AuditEntry, Error> {
    let mut columns = Columns::of(operation, row);
    Ok(AuditEntry {
        tenant_id: columns.take()?,
        id: columns.take()?,
        at: columns.take()?,
        actor: columns.take()?,
        credential: columns.take()?,
        request_id: columns.take()?,
        action: columns.take()?,
        subject_kind: columns.take()?,
        subject_id: columns.take()?,
        job_id: columns.take()?,
        detail: columns.json()?,
    })
}
