//! Who did what: a tenant's own log, and everybody's for operators.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{AuditFilter, AuditPage, rpc};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Read, Super, System, Tenant};
use crate::cursor;
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    /// Only about a job, bulk, `connector_config`, `api_key`, tenant, definition, queue, …
    subject_kind: Option<String>,
    /// Only about this one; needs its kind.
    subject_id: Option<String>,
    /// Only by this login or credential.
    actor: Option<String>,
    /// At or after.
    after: Option<Timestamp>,
    /// Before.
    before: Option<Timestamp>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<i32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Which entries, and whose.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SystemAuditParams {
    /// Only of this tenant's log; the system's own is that of tenant 0.
    tenant_id: Option<Uuid>,
    /// Only about a job, bulk, `connector_config`, `api_key`, tenant, definition, queue, …
    subject_kind: Option<String>,
    /// Only about this one; needs its kind.
    subject_id: Option<String>,
    /// Only by this login or credential.
    actor: Option<String>,
    /// At or after.
    after: Option<Timestamp>,
    /// Before.
    before: Option<Timestamp>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<i32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Read the tenant's audit log, newest first.
#[utoipa::path(get, path = "/audit", operation_id = "list_audit", tag = "audit", params(AuditParams), responses((status = 200, body = AuditPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Params(params): Params<AuditParams>,
) -> Result<Answer<AuditPage>, Problem> {
    let filter = params.filter()?;
    let client = app.db.tenant().await?;
    Ok(told(client.call(async |c| rpc::list_audit(c, tenant.id, &filter).await).await?))
}

/// Read everybody's audit log, newest first.
#[utoipa::path(get, path = "/admin/audit", operation_id = "list_system_audit", tag = "audit", params(SystemAuditParams), responses((status = 200, body = AuditPage)))]
pub(crate) async fn list_all(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Params(params): Params<SystemAuditParams>,
) -> Result<Answer<AuditPage>, Problem> {
    let SystemAuditParams { tenant_id, subject_kind, subject_id, actor, after, before, limit, cursor } =
        params;
    let filter = AuditParams { subject_kind, subject_id, actor, after, before, limit, cursor }.filter()?;
    let client = app.db.operator().await?;
    Ok(told(client.call(async |c| rpc::list_system_audit(c, tenant_id, &filter).await).await?))
}

/// A page with a cursor of ours around the database's.
fn told(page: AuditPage) -> Answer<AuditPage> {
    Answer(AuditPage { next_cursor: page.next_cursor.map(|place| cursor::write(&place)), ..page })
}

impl AuditParams {
    fn filter(self) -> Result<AuditFilter, Problem> {
        Ok(AuditFilter {
            subject_kind: self.subject_kind,
            subject_id: self.subject_id,
            actor: self.actor,
            after: self.after,
            before: self.before,
            limit: self.limit.unwrap_or(50),
            cursor: self.cursor.as_deref().map(cursor::read).transpose()?,
        })
    }
}
