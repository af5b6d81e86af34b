//! Keep a lease alive.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{Beat, Verdict, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{HeldJob, taken};
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Body, Place};
use crate::problem::Problem;

/// A lease that is to live on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatBody {
    /// The lease.
    lease_id: Uuid,
    /// All jobs of the lease that the worker holds, started or not, in their order.
    jobs: Option<Vec<HeldJob>>,
}

/// A job that is to be the worker's for longer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatJobBody {
    /// The lease it is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
}

/// A lease that lives on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobBeat {
    /// When the lease ends without another heartbeat.
    expires_at: Timestamp,
    /// Whether somebody asks the job to stop: stop it, and report it as failed with class `canceled`.
    canceled: bool,
}

/// Renew a lease: with it live all jobs on it. The answer tells which of the listed jobs shall stop (report them as failed
/// with class `canceled`) and which are lost (drop them without a report). 409: the lease is over, and all its jobs are lost.
///
/// Beat at a third of the lease's time, from a place that a busy handler cannot hold up.
#[utoipa::path(post, path = "/worker/heartbeat", tag = "worker", request_body = HeartbeatBody, responses((status = 200, body = Beat)))]
pub(crate) async fn heartbeat(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Body(body): Body<HeartbeatBody>,
) -> Result<Answer<Beat>, Problem> {
    let jobs = body.jobs.as_deref().map(|jobs| caller.held_all(jobs)).transpose()?;
    let client = app.db.worker().await?;
    // Never what the worker has settled: the database would forget jobs that a mistaken worker still holds, for good.
    Ok(Answer(
        client
            .call(async |c| {
                rpc::bound_to(c, caller.bound(), rpc::heartbeat(c, body.lease_id, jobs.as_deref(), None))
                    .await
            })
            .await?,
    ))
}

/// Renew the lease of one job, for a worker that has one at a time. 409: the job is no longer this worker's.
#[utoipa::path(post, path = "/worker/jobs/{id}/heartbeat", tag = "worker", params(("id" = Uuid, Path)), request_body = HeartbeatJobBody, responses((status = 200, body = JobBeat)))]
pub(crate) async fn heartbeat_job(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<HeartbeatJobBody>,
) -> Result<Answer<JobBeat>, Problem> {
    let job = caller.held(HeldJob { tenant_id: body.tenant_id, id, fence: body.fence })?;
    let client = app.db.worker().await?;
    let beat = client
        .call(async |c| {
            rpc::bound_to(
                c,
                caller.bound(),
                rpc::heartbeat(c, body.lease_id, Some(std::slice::from_ref(&job)), None),
            )
            .await
        })
        .await?;
    if !beat.lost.is_empty() {
        taken(Verdict::Stale, id)?;
    }
    Ok(Answer(JobBeat { expires_at: beat.expires_at, canceled: !beat.canceled.is_empty() }))
}
