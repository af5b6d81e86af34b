//! The program that a running attempt started.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use jobforge_core::{ProgramExit, rpc};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::HeldJob;
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Body, Place};
use crate::problem::Problem;

/// What is known of the program.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExitBody {
    /// The lease the job is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
    /// Its process.
    #[schema(minimum = 1)]
    pid: Option<i32>,
    /// Its exit code, if it ended by itself.
    #[schema(minimum = 0, maximum = 255)]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[schema(minimum = 1, maximum = 64)]
    signal: Option<i32>,
    /// The end of its standard output; 64 KiB are kept.
    stdout_tail: Option<String>,
    /// The end of its standard error; 64 KiB are kept.
    stderr_tail: Option<String>,
}

/// Note the program of a running attempt: once when it starts, again when it ended. The later report counts.
#[utoipa::path(post, path = "/worker/jobs/{id}/exit", tag = "worker", params(("id" = Uuid, Path)), request_body = ExitBody, responses((status = 204, description = "Noted")))]
pub(crate) async fn exit(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<ExitBody>,
) -> Result<StatusCode, Problem> {
    let job = caller.held(HeldJob { tenant_id: body.tenant_id, id, fence: body.fence })?;
    let exit = ProgramExit {
        pid: body.pid,
        exit_code: body.exit_code,
        signal: body.signal,
        stdout_tail: body.stdout_tail,
        stderr_tail: body.stderr_tail,
    };
    let client = app.db.patient_worker().await?;
    client
        .call(async |c| {
            rpc::bound_to(c, caller.bound(), rpc::report_exit(c, body.lease_id, job, &exit)).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
