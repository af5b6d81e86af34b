//! Take jobs onto a lease.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{Claimed, ClaimedJob, Cursor, Payload};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::poll::{self, Ask};
use super::require_names;
use crate::app::App;
use crate::auth::{System, Work};
use crate::cursor;
use crate::extract::{Answer, Body};
use crate::problem::Problem;

/// The longest time a claim waits for work.
const MOST_WAIT: u64 = 30;

/// What a worker asks for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// The worker, as it registered.
    worker_id: String,
    /// Where to look, 1 to 50 queues.
    queues: Vec<String>,
    /// What it can run, 1 to 500 types; `definition_keys` is taken too.
    #[serde(alias = "definition_keys")]
    types: Vec<String>,
    /// The most jobs to take.
    #[serde(default = "one")]
    #[schema(default = 1, minimum = 1, maximum = 5000)]
    limit: i32,
    /// The living lease to put them on; without it a lease is made if there are jobs.
    lease_id: Option<Uuid>,
    /// A random UUID (version 4) for a lease that this claim makes, so that it can be released though the answer was lost.
    new_lease_id: Option<Uuid>,
    /// How long a new lease lives without a heartbeat.
    #[serde(default = "half_a_minute")]
    #[schema(default = 30, minimum = 1, maximum = 3600)]
    lease_seconds: i32,
    /// How many jobs of the lease are started and not reported at a time. For a new one `limit` if it is left out; a living one is
    /// widened to it, never made tighter.
    #[schema(minimum = 1, maximum = 100_000)]
    window: Option<i32>,
    /// Of work under a limit take no more than this; `limit` if it is left out.
    #[schema(minimum = 0)]
    free: Option<i32>,
    /// The last answer's.
    cursor: Option<String>,
    /// How long to wait for work when there is none.
    #[serde(default)]
    #[schema(default = 0, maximum = 30)]
    wait_seconds: u64,
}

/// The jobs of a claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimAnswer {
    /// The lease to keep alive and to claim onto next; none where nothing was claimed and none was given.
    lease_id: Option<Uuid>,
    /// When that lease ends without a heartbeat.
    expires_at: Option<Timestamp>,
    /// The jobs, in the order in which they must be started.
    jobs: Vec<WorkJob>,
    /// For the next claim.
    cursor: String,
    /// When a rate lets more start, if one holds work back.
    retry_at: Option<Timestamp>,
}

/// A job that is the worker's until its lease ends.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClaimedJob)]
pub(crate) struct WorkJob {
    /// Whose it is.
    tenant_id: Uuid,
    /// The job.
    id: Uuid,
    /// Its type.
    #[serde(rename = "type")]
    job_type: String,
    /// Its queue.
    queue: String,
    /// Its priority.
    priority: i16,
    /// When it was due.
    run_at: Timestamp,
    /// What its reports must carry.
    fence: i32,
    /// The number of this attempt.
    attempt: i32,
    /// How often it failed.
    failures: i32,
    /// How often it may fail.
    max_attempts: i16,
    /// How long this attempt may take.
    timeout_seconds: i32,
    /// What it is given.
    #[schema(value_type = serde_json::Value)]
    payload: Payload,
    /// What ties it to other records.
    correlation_id: Option<String>,
    /// The trace it belongs to.
    traceparent: Option<String>,
    /// The lease it is on: a job that is under suspicion has one of its own.
    lease_id: Uuid,
    /// When that lease ends without a heartbeat.
    lease_expires_at: Timestamp,
    /// Whether it killed its worker before and must run beside no other such job.
    solo: bool,
}

fn one() -> i32 {
    1
}

fn half_a_minute() -> i32 {
    30
}

/// Take jobs, and wait for some if there are none. The answer without jobs is no error: ask again.
///
/// The lease's rule: a worker starts the jobs of a lease in the order of the answers, and has at most `window` of them
/// started and not reported. If it dies, those that may have been running count a death, and the others go back free.
///
/// An answer that is lost: release the lease (`POST /worker/jobs/release` without a list). To know its id, choose it
/// yourself: `new_lease_id`. The jobs of a caller that goes away while it waits are given back.
#[utoipa::path(post, path = "/worker/jobs/claim", tag = "worker", request_body = ClaimBody, responses((status = 200, body = ClaimAnswer)))]
pub(crate) async fn claim(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Body(body): Body<ClaimBody>,
) -> Result<Answer<ClaimAnswer>, Problem> {
    let given = body.lease_id;
    let ask = body.ask(&caller)?;
    let (claimed, cursor) = poll::claim(app, ask).await?;
    Ok(Answer(ClaimAnswer::new(claimed, given, &cursor)))
}

impl ClaimBody {
    fn ask(self, caller: &System<Work>) -> Result<Ask, Problem> {
        require_names(self.queues.iter().chain(&self.types))?;
        if self.wait_seconds > MOST_WAIT {
            let detail = format!("wait_seconds must be 0 to {MOST_WAIT}");
            return Err(Problem::malformed("wait_out_of_range", detail));
        }
        if self.new_lease_id.is_some_and(|id| id.get_version_num() != 4) {
            let detail = "new_lease_id must be a random UUID (version 4): whoever knows it holds the lease";
            return Err(Problem::malformed("lease_id_malformed", detail));
        }
        let cursor = self.cursor.as_deref().map(cursor::read::<Cursor>).transpose()?;
        Ok(Ask {
            bound: caller.bound(),
            worker_id: caller.worker_id(&self.worker_id)?,
            queues: self.queues,
            types: self.types,
            limit: self.limit,
            free: self.free.unwrap_or(self.limit),
            lease_id: self.lease_id,
            new_lease_id: self.new_lease_id,
            lease_seconds: self.lease_seconds,
            window: self.window,
            cursor: cursor.unwrap_or_default(),
            wait: Duration::from_secs(self.wait_seconds),
        })
    }
}

impl ClaimAnswer {
    fn new(claimed: Claimed, given: Option<Uuid>, cursor: &Cursor) -> ClaimAnswer {
        // A new lease exists only if a job is on it.
        let exists = given.is_some() || claimed.jobs.iter().any(|job| job.lease_id == claimed.lease_id);
        ClaimAnswer {
            lease_id: exists.then_some(claimed.lease_id),
            expires_at: exists.then_some(claimed.expires_at),
            retry_at: claimed.retry_at,
            jobs: claimed.jobs.into_iter().map(WorkJob::from).collect(),
            cursor: cursor::write(cursor),
        }
    }
}

impl From<ClaimedJob> for WorkJob {
    fn from(job: ClaimedJob) -> WorkJob {
        WorkJob {
            tenant_id: job.job.tenant_id,
            id: job.job.id,
            job_type: job.job_type,
            queue: job.queue,
            priority: job.priority,
            run_at: job.run_at,
            fence: job.job.fence,
            attempt: job.job.fence,
            failures: job.failures,
            max_attempts: job.max_attempts,
            timeout_seconds: job.timeout_seconds,
            payload: job.payload,
            correlation_id: job.correlation_id,
            traceparent: job.traceparent,
            lease_id: job.lease_id,
            lease_expires_at: job.lease_expires_at,
            solo: job.solo,
        }
    }
}
