//! Go on with an operation that was left.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use jobforge_core::rpc;
use uuid::Uuid;

use super::{DrivenBulk, answer};
use crate::app::App;
use crate::auth::{Operate, Tenant};
use crate::bulks::drive;
use crate::extract::{BodyIfAny, Place};
use crate::problem::Problem;
use crate::routes::jobs::retry::NoInput;

/// Go on with an operation, or its undoing, that a server left when it stopped (`drive` says `elsewhere`). One that is driven already goes on once.
#[utoipa::path(
    post, path = "/bulk/{id}/resume", tag = "bulk operations", params(("id" = Uuid, Path)), request_body = Option<NoInput>,
    responses(
        (status = 202, body = DrivenBulk, description = "Under way"),
        (status = 200, body = DrivenBulk, description = "Nothing was left to do"),
    )
)]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Place(id): Place<Uuid>,
    BodyIfAny(NoInput {}): BodyIfAny<NoInput>,
) -> Result<Response, Problem> {
    let client = app.db.tenant().await?;
    let bulk = client.call(async |c| rpc::get_bulk(c, tenant.id, id).await).await?;
    drive(&app, tenant.id, &tenant.actor, &bulk);
    Ok(answer(DrivenBulk::new(&app, tenant.id, bulk)))
}
