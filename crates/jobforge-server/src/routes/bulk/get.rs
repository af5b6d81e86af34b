//! One operation, and how far it is.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Bulk, rpc};
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// Look at an operation.
#[utoipa::path(get, path = "/bulk/{id}", tag = "bulk operations", params(("id" = Uuid, Path)), responses((status = 200, body = Bulk)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Place(id): Place<Uuid>,
) -> Result<Answer<Bulk>, Problem> {
    let client = app.db.tenant().await?;
    let answer = rpc::get_bulk(&*client, tenant.id, id).await;
    client.done(answer).map(Answer)
}
