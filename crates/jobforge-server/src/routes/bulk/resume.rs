//! Go on with an operation that was left.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use jobforge_core::{Bulk, rpc};
use uuid::Uuid;

use super::answer;
use crate::app::App;
use crate::auth::{Operate, Tenant};
use crate::bulks::drive;
use crate::extract::{BodyIfAny, Place};
use crate::problem::Problem;
use crate::routes::jobs::retry::NoInput;

/// Go on with an operation, or its undoing, that a server left when it stopped. One that is driven already goes on once.
#[utoipa::path(
    post, path = "/bulk/{id}/resume", tag = "bulk operations", params(("id" = Uuid, Path)), request_body = Option<NoInput>,
    responses(
        (status = 202, body = Bulk, description = "Under way"),
        (status = 200, body = Bulk, description = "Nothing was left to do"),
    )
)]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Place(id): Place<Uuid>,
    BodyIfAny(NoInput {}): BodyIfAny<NoInput>,
) -> Result<Response, Problem> {
    let client = app.db.tenant().await?;
    let found = rpc::get_bulk(&*client, tenant.id, id).await;
    let bulk = client.done(found)?;
    drive(&app, tenant.id, &tenant.actor, &bulk);
    Ok(answer(bulk))
}
