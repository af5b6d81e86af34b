//! The workers as the database knows them.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Worker, rpc};
use serde::Serialize;
use utoipa::ToSchema;

use super::page::LimitParams;
use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// The workers there are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Workers {
    /// The workers, the last seen first.
    workers: Vec<Worker>,
}

/// List workers.
#[utoipa::path(get, path = "/admin/workers", operation_id = "list_workers", tag = "operate", params(LimitParams), responses((status = 200, body = Workers)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Params(params): Params<LimitParams>,
) -> Result<Answer<Workers>, Problem> {
    let client = app.db.operator().await?;
    let workers = client.call(async |c| rpc::list_workers(c, params.limit).await).await?;
    Ok(Answer(Workers { workers }))
}
