//! How far a running job is.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use jobforge_core::rpc;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::HeldJob;
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Body, Place};
use crate::problem::Problem;

/// How far it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgressBody {
    /// The lease the job is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
    /// 0 to 100.
    #[schema(minimum = 0, maximum = 100)]
    percent: f32,
    /// What it does; 1000 characters are kept.
    #[serde(default)]
    message: String,
}

/// Tell how far a running job is.
#[utoipa::path(post, path = "/worker/jobs/{id}/progress", tag = "worker", params(("id" = Uuid, Path)), request_body = ProgressBody, responses((status = 204, description = "Noted")))]
pub(crate) async fn progress(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<ProgressBody>,
) -> Result<StatusCode, Problem> {
    let job = caller.held(HeldJob { tenant_id: body.tenant_id, id, fence: body.fence })?;
    let client = app.db.patient_worker().await?;
    client
        .call(async |c| {
            rpc::bound_to(
                c,
                caller.bound(),
                rpc::report_progress(c, body.lease_id, job, body.percent, &body.message),
            )
            .await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
