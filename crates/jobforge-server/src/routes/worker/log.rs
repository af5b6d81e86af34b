//! Log lines of a running attempt.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{LogLine, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{HeldJob, require_rows};
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Body, Place};
use crate::problem::Problem;

/// What to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogBody {
    /// The lease the job is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
    /// The lines, in their order; 4 KiB of each are kept, and 10,000 of an attempt.
    lines: Vec<LogLine>,
}

/// What was added.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Logged {
    /// How many lines were kept.
    kept: i32,
}

/// Add lines to the log of a running attempt. Not safe to repeat: lines that come twice stand there twice.
#[utoipa::path(post, path = "/worker/jobs/{id}/log", tag = "worker", params(("id" = Uuid, Path)), request_body = LogBody, responses((status = 200, body = Logged)))]
pub(crate) async fn log(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<LogBody>,
) -> Result<Answer<Logged>, Problem> {
    let job = caller.held(HeldJob { tenant_id: body.tenant_id, id, fence: body.fence })?;
    require_rows(body.lines.len())?;
    let client = app.db.patient_worker().await?;
    Ok(Answer(Logged {
        kept: client
            .call(async |c| {
                rpc::bound_to(c, caller.bound(), rpc::append_log(c, body.lease_id, job, &body.lines)).await
            })
            .await?,
    }))
}
