//! One operation, and how far it is.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::rpc;
use uuid::Uuid;

use super::DrivenBulk;
use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// Look at an operation.
#[utoipa::path(get, path = "/bulk/{id}", tag = "bulk operations", params(("id" = Uuid, Path)), responses((status = 200, body = DrivenBulk)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Place(id): Place<Uuid>,
) -> Result<Answer<DrivenBulk>, Problem> {
    let client = app.db.tenant().await?;
    let bulk = client.call(async |c| rpc::get_bulk(c, tenant.id, id).await).await?;
    Ok(Answer(DrivenBulk::new(&app, tenant.id, bulk)))
}
