//! Log lines of a running attempt.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{LogLine, rpc};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;
use utoipa::ToSchema;
use uuid::Uuid;

use super::HeldJob;
use super::batch::InvalidRow;
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Batch, Place};
use crate::problem::Problem;
use crate::rows::Rows;

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
    #[schema(value_type = Vec<LogLine>)]
    lines: Rows<LogLine>,
}

/// What was added.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Logged {
    /// How many lines were kept.
    kept: i32,
    /// The lines that cannot be read: the others were added without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    invalid: Vec<InvalidRow>,
}

/// Add lines to the log of a running attempt. A line that cannot be read keeps none of the others out. Not safe to repeat: lines that come twice stand there twice.
#[utoipa::path(post, path = "/worker/jobs/{id}/log", tag = "worker", params(("id" = Uuid, Path)), request_body = LogBody, responses((status = 200, body = Logged)))]
pub(crate) async fn log(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Batch(body): Batch<LogBody>,
) -> Result<Answer<Logged>, Problem> {
    let job = caller.held(HeldJob { tenant_id: body.tenant_id, id, fence: body.fence })?;
    let (mut lines, mut invalid) = (Vec::new(), Vec::new());
    for (row, line) in body.lines.read()?.into_iter().enumerate() {
        match line {
            Ok(line) => lines.push(line),
            Err(misread) => invalid.push(InvalidRow::line(row, misread.problem)),
        }
    }
    let client = app.db.patient_worker().await?;
    let append = async |c: &Client| {
        rpc::bound_to(c, caller.bound(), rpc::append_log(c, body.lease_id, job, &lines)).await
    };
    let kept = client.call(append).await?;
    Ok(Answer(Logged { kept, invalid }))
}
