//! What is paused now.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Pause, rpc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Answer, Params};
use crate::problem::Problem;
use crate::routes::admin::page::LimitParams;

/// What is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pauses {
    /// The pauses, the latest first.
    pauses: Vec<Pause>,
}

/// List what is paused now.
#[utoipa::path(get, path = "/admin/pauses", operation_id = "list_pauses", tag = "operate", params(LimitParams), responses((status = 200, body = Pauses)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Params(params): Params<LimitParams>,
) -> Result<Answer<Pauses>, Problem> {
    let client = app.db.operator().await?;
    let pauses = client.call(async |c| rpc::list_pauses(c, params.limit).await).await?;
    Ok(Answer(Pauses { pauses }))
}
