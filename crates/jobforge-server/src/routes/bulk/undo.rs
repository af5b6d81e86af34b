//! Undo a redrive.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use jobforge_core::rpc;
use uuid::Uuid;

use super::{DrivenBulk, answer};
use crate::app::App;
use crate::auth::{Operate, Tenant};
use crate::bulks::{STEP, drive};
use crate::change::change;
use crate::extract::{BodyIfAny, Place};
use crate::problem::Problem;
use crate::routes::jobs::retry::NoInput;

/// Make the jobs of a redrive dead letters again, as they were, as far as they have not started since. The first ones at
/// once, the others by the server in steps.
#[utoipa::path(
    post, path = "/bulk/{id}/undo", tag = "bulk operations", params(("id" = Uuid, Path)), request_body = Option<NoInput>,
    responses(
        (status = 202, body = DrivenBulk, description = "Under way"),
        (status = 200, body = DrivenBulk, description = "Undone"),
    )
)]
pub(crate) async fn undo(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Place(id): Place<Uuid>,
    BodyIfAny(NoInput {}): BodyIfAny<NoInput>,
) -> Result<Response, Problem> {
    let bulk = change(&app, &tenant, async |c| rpc::undo_bulk(c, tenant.id, id, STEP).await).await?;
    drive(&app, tenant.id, &tenant.actor, &bulk);
    Ok(answer(DrivenBulk::new(&app, tenant.id, bulk)))
}
