//! Attempts that did not end well.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{AttemptEnd, Class, Failed, Failure, JobRef, Verdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::batch::{self, Named, ReportedJob};
use super::{HeldJob, seconds, taken};
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Batch, Body, Place};
use crate::gather::{End, Report};
use crate::problem::{Problem, ProblemBody};
use crate::rows::Rows;

/// Attempts of one lease that did not end well.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailBody {
    /// The lease the jobs are on.
    lease_id: Uuid,
    /// The attempts, 5000 at most.
    #[schema(value_type = Vec<FailedJob>)]
    jobs: Rows<FailedJob>,
}

/// One of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailedJob {
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The job.
    id: Uuid,
    /// The fence it was claimed with.
    fence: i32,
    /// Whether it is worth trying again.
    #[serde(default = "retryable")]
    class: Class,
    /// What went wrong; 8 KiB are kept.
    #[serde(default)]
    error: String,
    /// Not to be tried again sooner than this.
    #[schema(minimum = 0, maximum = 31_536_000)]
    retry_after_seconds: Option<f64>,
    /// How the attempt is written down; `failed`, or `canceled` for that class, if it is left out.
    status: Option<AttemptEnd>,
    /// Of a program that ran.
    exit_code: Option<i32>,
    /// The end of what it printed; 64 KiB are kept.
    stdout_tail: Option<String>,
    /// The end of what it complained; 64 KiB are kept.
    stderr_tail: Option<String>,
}

/// An attempt that did not end well.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailJobBody {
    /// The lease the job is on.
    lease_id: Uuid,
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The fence it was claimed with.
    fence: i32,
    /// Whether it is worth trying again.
    #[serde(default = "retryable")]
    class: Class,
    /// What went wrong; 8 KiB are kept.
    #[serde(default)]
    error: String,
    /// Not to be tried again sooner than this.
    #[schema(minimum = 0, maximum = 31_536_000)]
    retry_after_seconds: Option<f64>,
    /// How the attempt is written down; `failed`, or `canceled` for that class, if it is left out.
    status: Option<AttemptEnd>,
    /// Of a program that ran.
    exit_code: Option<i32>,
    /// The end of what it printed; 64 KiB are kept.
    stdout_tail: Option<String>,
    /// The end of what it complained; 64 KiB are kept.
    stderr_tail: Option<String>,
}

/// What became of one row.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailedAnswer {
    /// Whose job it is; null where an invalid row does not tell.
    tenant_id: Option<Uuid>,
    /// The job; null where an invalid row does not tell.
    id: Option<Uuid>,
    /// `done`, `already`, `stale`, `unknown`; `invalid`: the row cannot be carried out, and `error` tells why.
    verdict: Verdict,
    /// The job's new status, if the report was taken: `queued` to be tried again, `failed`, `dead` or `canceled`.
    status: Option<String>,
    /// When it runs again, if it does.
    run_at: Option<Timestamp>,
    /// What is wrong with an invalid row, and where in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    error: Option<ProblemBody>,
}

/// What became of each row, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailedAnswers {
    /// The rows.
    jobs: Vec<FailedAnswer>,
}

fn retryable() -> Class {
    Class::Retryable
}

/// Report attempts that did not end well. The database decides what becomes of each job. Answered when it is durable, with a
/// verdict for each: one that is stale or malformed takes none of the others along. Safe to repeat.
#[utoipa::path(post, path = "/worker/jobs/fail", tag = "worker", request_body = FailBody, responses((status = 200, body = FailedAnswers)))]
pub(crate) async fn fail_jobs(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Batch(body): Batch<FailBody>,
) -> Result<Answer<FailedAnswers>, Problem> {
    let failure =
        |job, row: FailedJob| row.failure(job).map_err(|problem| problem.at("/retry_after_seconds"));
    let mut rows = batch::Report::new(&caller, body.jobs, failure)?;
    let ends = End::Badly(std::mem::take(&mut rows.sound));
    let answers = app.reports.put(Report { bound: caller.bound(), lease: body.lease_id, ends }).await?;
    let told = rows.tell(answers)?.into_iter().map(|(job, answer)| {
        let ReportedJob { tenant_id, id, verdict, error } = job;
        FailedAnswer { tenant_id, id, verdict, status: answer.status, run_at: answer.run_at, error }
    });
    Ok(Answer(FailedAnswers { jobs: told.collect() }))
}

/// Report that an attempt did not end well. The database decides what becomes of the job: tried again, failed, dead or
/// canceled. Answered when it is durable; safe to repeat.
#[utoipa::path(post, path = "/worker/jobs/{id}/fail", tag = "worker", params(("id" = Uuid, Path)), request_body = FailJobBody, responses((status = 200, body = Failed)))]
pub(crate) async fn fail_job(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Place(id): Place<Uuid>,
    Body(body): Body<FailJobBody>,
) -> Result<Answer<Failed>, Problem> {
    let lease = body.lease_id;
    let job = body.of(id);
    let held = caller.held(job.job())?;
    let ends = End::Badly(vec![job.failure(held)?]);
    let mut answers = app.reports.put(Report { bound: caller.bound(), lease, ends }).await?;
    match answers.pop() {
        Some(answer) => taken(answer.verdict, id).map(|_| Answer(answer)),
        None => Err(Problem::unavailable("the report got no answer")),
    }
}

impl FailJobBody {
    fn of(self, id: Uuid) -> FailedJob {
        FailedJob {
            tenant_id: self.tenant_id,
            id,
            fence: self.fence,
            class: self.class,
            error: self.error,
            retry_after_seconds: self.retry_after_seconds,
            status: self.status,
            exit_code: self.exit_code,
            stdout_tail: self.stdout_tail,
            stderr_tail: self.stderr_tail,
        }
    }
}

impl Named for FailedJob {
    fn job(&self) -> HeldJob {
        HeldJob { tenant_id: self.tenant_id, id: self.id, fence: self.fence }
    }
}

impl FailedJob {
    fn failure(self, job: JobRef) -> Result<Failure, Problem> {
        let end = match self.class {
            Class::Canceled => AttemptEnd::Canceled,
            Class::Retryable | Class::Permanent => AttemptEnd::Failed,
        };
        Ok(Failure {
            job,
            class: self.class,
            error: self.error,
            retry_after: self.retry_after_seconds.map(|time| seconds("retry_after", time)).transpose()?,
            end: self.status.unwrap_or(end),
            exit_code: self.exit_code,
            stdout_tail: self.stdout_tail,
            stderr_tail: self.stderr_tail,
        })
    }
}
