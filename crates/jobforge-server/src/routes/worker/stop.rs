//! A worker stops of its own accord.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use jobforge_core::{Code, rpc};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::Body;
use crate::problem::{ErrorCode, Problem};

/// The worker that stops.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    /// The worker, as it registered.
    worker_id: String,
}

/// Note that a worker stopped. Its leases are another matter: release them first.
#[utoipa::path(post, path = "/worker/stop", tag = "worker", request_body = StopBody, responses((status = 204, description = "Noted")))]
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Body(body): Body<StopBody>,
) -> Result<StatusCode, Problem> {
    let worker_id = caller.worker_id(&body.worker_id)?;
    let client = app.db.worker().await?;
    if client.call(async |c| rpc::bound_to(c, caller.bound(), rpc::stop_worker(c, &worker_id)).await).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = format!("worker {} is not registered", body.worker_id);
    Err(Problem::new(ErrorCode::Refused(Code::NotFound), "worker_unknown", detail))
}
