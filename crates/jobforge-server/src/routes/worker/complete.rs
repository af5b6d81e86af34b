//! Jobs that ended well.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Completion, Payload};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::batch::{self, Named, ReportedJobs};
use super::{HeldJob, Reported, taken};
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Batch, Body, Place};
use crate::gather::{End, Report};
use crate::problem::Problem;
use crate::rows::Rows;

/// Jobs of one lease that ended well.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteBody {
    /// The lease they are on.
    lease_id: Uuid,
    /// The jobs, 5000 at most.
    #[schema(value_type = Vec<CompletedJob>)]
    jobs: Rows<CompletedJob>,
}

/// One of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletedJob {
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The job.
    id: Uuid,
    /// The fence it was claimed with.
    fence: i32,
    /// What it gives back, at most 1 MiB.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Payload>,
}

/// A job that ended well.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteJobBody {
    /// The lease it is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
    /// What it gives back, at most 1 MiB.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Payload>,
}

/// Report jobs that ended well. Answered when it is durable, with a verdict for each: one that is stale or malformed takes
/// none of the others along. Safe to repeat: what was reported before is `already`.
#[utoipa::path(post, path = "/worker/jobs/complete", tag = "worker", request_body = CompleteBody, responses((status = 200, body = ReportedJobs)))]
pub(crate) async fn complete_jobs(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Batch(body): Batch<CompleteBody>,
) -> Result<Answer<ReportedJobs>, Problem> {
    let completion = |job, row: CompletedJob| Ok(Completion { job, result: row.result, locator: None });
    let mut rows = batch::Report::new(&caller, body.jobs, completion)?;
    let ends = End::Well(std::mem::take(&mut rows.sound));
    let answers = app.reports.put(Report { bound: caller.bound(), lease: body.lease_id, ends }).await?;
    Ok(Answer(ReportedJobs::of(rows.tell(answers)?)))
}

impl Named for CompletedJob {
    fn job(&self) -> HeldJob {
        HeldJob { tenant_id: self.tenant_id, id: self.id, fence: self.fence }
    }
}

/// Report that a job ended well. Answered when it is durable; safe to repeat.
#[utoipa::path(post, path = "/worker/jobs/{id}/complete", tag = "worker", params(("id" = Uuid, Path)), request_body = CompleteJobBody, responses((status = 200, body = Reported)))]
pub(crate) async fn complete_job(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<CompleteJobBody>,
) -> Result<Answer<Reported>, Problem> {
    let CompleteJobBody { lease_id, tenant_id, fence, result } = body;
    let job = caller.held(HeldJob { tenant_id, id, fence })?;
    let ends = End::Well(vec![Completion { job, result, locator: None }]);
    let answers = app.reports.put(Report { bound: caller.bound(), lease: lease_id, ends }).await?;
    match answers.first() {
        Some(answer) => taken(answer.verdict, id).map(Answer),
        None => Err(Problem::unavailable("the report got no answer")),
    }
}
