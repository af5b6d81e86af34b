//! Keep a lease alive.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{Beat, JobRef, Verdict, rpc};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;
use utoipa::ToSchema;
use uuid::Uuid;

use super::batch::{InvalidRow, Report};
use super::{HeldJob, taken};
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Batch, Body, Place};
use crate::problem::Problem;
use crate::rows::Rows;

/// A lease that is to live on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatBody {
    /// The lease.
    lease_id: Uuid,
    /// All jobs of the lease that the worker holds, started or not, in their order.
    #[schema(value_type = Option<Vec<HeldJob>>)]
    jobs: Option<Rows<HeldJob>>,
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
#[schema(as = Beat)]
pub(crate) struct LeaseBeat {
    /// When the lease ends without another heartbeat.
    expires_at: Timestamp,
    /// The listed jobs that shall stop.
    canceled: Vec<JobRef>,
    /// The listed jobs that are no longer the worker's.
    lost: Vec<JobRef>,
    /// The rows that cannot be read: nothing is told of their jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    invalid: Vec<InvalidRow>,
}

/// A job that is the worker's for longer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobBeat {
    /// When the lease ends without another heartbeat.
    expires_at: Timestamp,
    /// Whether somebody asks the job to stop: stop it, and report it as failed with class `canceled`.
    canceled: bool,
}

/// Renew a lease: with it live all jobs on it. The answer tells which of the listed jobs shall stop (report them as failed
/// with class `canceled`) and which are lost (drop them without a report). 409: the lease is over, and all its jobs are lost.
/// A row that cannot be read is told as `invalid`; the lease lives on all the same.
///
/// Beat at a third of the lease's time, from a place that a busy handler cannot hold up.
#[utoipa::path(post, path = "/worker/heartbeat", tag = "worker", request_body = HeartbeatBody, responses((status = 200, body = LeaseBeat)))]
pub(crate) async fn heartbeat(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Batch(body): Batch<HeartbeatBody>,
) -> Result<Answer<LeaseBeat>, Problem> {
    let rows = body.jobs.map(|rows| Report::of_jobs(&caller, rows)).transpose()?;
    let jobs = rows.as_ref().map(|rows| rows.sound.as_slice());
    let client = app.db.worker().await?;
    // Never what the worker has settled: the database would forget jobs that a mistaken worker still holds, for good.
    let beat = async |c: &Client| {
        rpc::bound_to(c, caller.bound(), rpc::heartbeat(c, body.lease_id, jobs, None)).await
    };
    let Beat { expires_at, canceled, lost } = client.call(beat).await?;
    let invalid = rows.map(Report::invalid).unwrap_or_default();
    Ok(Answer(LeaseBeat { expires_at, canceled, lost, invalid }))
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
