//! Put a running job off.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::rpc;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{HeldJob, seconds};
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Body, Place};
use crate::problem::Problem;

/// For how long.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnoozeBody {
    /// The lease the job is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
    /// How long from now.
    #[schema(minimum = 0, maximum = 31_536_000)]
    seconds: f64,
}

/// A job that was put off.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snoozed {
    /// When it runs again.
    run_at: Timestamp,
}

/// Put a running job off without counting the attempt as a failure.
#[utoipa::path(post, path = "/worker/jobs/{id}/snooze", tag = "worker", params(("id" = Uuid, Path)), request_body = SnoozeBody, responses((status = 200, body = Snoozed)))]
pub(crate) async fn snooze(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<SnoozeBody>,
) -> Result<Answer<Snoozed>, Problem> {
    let job = caller.held(HeldJob { tenant_id: body.tenant_id, id, fence: body.fence })?;
    let delay = seconds("snooze", body.seconds)?;
    let client = app.db.patient_worker().await?;
    Ok(Answer(Snoozed {
        run_at: client
            .call(async |c| {
                rpc::bound_to(c, caller.bound(), rpc::snooze_job(c, body.lease_id, job, delay)).await
            })
            .await?,
    }))
}
