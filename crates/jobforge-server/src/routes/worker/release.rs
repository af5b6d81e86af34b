//! Give jobs back without anything counted against them.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Failed, Verdict, rpc};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::batch::{Report, ReportedJobs};
use super::{HeldJob, Reported, taken};
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Batch, Body, Place};
use crate::problem::Problem;
use crate::rows::Rows;

/// What goes back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    /// The lease the jobs are on.
    lease_id: Uuid,
    /// The jobs; left out, all that the lease holds goes back, known to the worker or not, and the lease ends.
    #[schema(value_type = Option<Vec<HeldJob>>)]
    jobs: Option<Rows<HeldJob>>,
}

/// A job that goes back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseJobBody {
    /// The lease it is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
}

/// Give jobs back, free: for a worker that stops, or one that lost a claim's answer. A row that is stale or malformed takes
/// none of the others along.
#[utoipa::path(post, path = "/worker/jobs/release", tag = "worker", request_body = ReleaseBody, responses((status = 200, body = ReportedJobs)))]
pub(crate) async fn release_jobs(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Batch(body): Batch<ReleaseBody>,
) -> Result<Answer<ReportedJobs>, Problem> {
    let rows = body.jobs.map(|rows| Report::of_jobs(&caller, rows)).transpose()?;
    let client = app.db.patient_worker().await?;
    let Some(rows) = rows else {
        client
            .call(async |c| rpc::bound_to(c, caller.bound(), rpc::close_lease(c, body.lease_id)).await)
            .await?;
        return Ok(Answer(ReportedJobs::of(Vec::new())));
    };
    let verdicts = client
        .call(async |c| {
            rpc::bound_to(c, caller.bound(), rpc::release_jobs(c, body.lease_id, &rows.sound)).await
        })
        .await?;
    let told = |verdict| Failed { verdict, status: None, run_at: None };
    Ok(Answer(ReportedJobs::of(rows.tell(verdicts.into_iter().map(told).collect())?)))
}

/// Give a job back, free.
#[utoipa::path(post, path = "/worker/jobs/{id}/release", tag = "worker", params(("id" = Uuid, Path)), request_body = ReleaseJobBody, responses((status = 200, body = Reported)))]
pub(crate) async fn release_job(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<ReleaseJobBody>,
) -> Result<Answer<Reported>, Problem> {
    let job = caller.held(HeldJob { tenant_id: body.tenant_id, id, fence: body.fence })?;
    let client = app.db.patient_worker().await?;
    match client
        .call(async |c| {
            rpc::bound_to(c, caller.bound(), rpc::release_jobs(c, body.lease_id, std::slice::from_ref(&job)))
                .await
        })
        .await?
        .first()
    {
        // A job whose attempt was reported cannot be given back.
        Some(Verdict::Already) => taken(Verdict::Stale, id).map(Answer),
        Some(verdict) => taken(*verdict, id).map(Answer),
        None => Err(Problem::unavailable("the report got no answer")),
    }
}
