//! Wait for a job to end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use jobforge_core::{Code, rpc};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::get::FullJob;
use crate::app::App;
use crate::auth::{Look, Tenant};
use crate::extract::{Answer, Params, Place};
use crate::problem::{ErrorCode, Problem};

/// The longest wait, in seconds: within the time that every request has.
const LONGEST: u64 = 60;

/// How long.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitParams {
    /// Seconds after which the job is answered as it is, 0 to 60; 30 unless it is given.
    #[param(minimum = 0, maximum = 60)]
    timeout_seconds: Option<u64>,
}

/// A job that was waited for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitedJob {
    /// Whether it is over. If not, the time was, or the server stops: ask again.
    over: bool,
    #[serde(flatten)]
    job: FullJob,
}

/// Wait until a job is over, whatever became of it.
#[utoipa::path(get, path = "/jobs/{id}/wait", tag = "jobs", params(("id" = Uuid, Path), WaitParams), responses((status = 200, body = WaitedJob)))]
pub(crate) async fn wait(
    State(app): State<Arc<App>>,
    tenant: Tenant<Look>,
    Place(id): Place<Uuid>,
    Params(params): Params<WaitParams>,
) -> Result<Answer<WaitedJob>, Problem> {
    let seconds = params.timeout_seconds.unwrap_or(30);
    if seconds > LONGEST {
        let code = ErrorCode::Refused(Code::InvalidArgument);
        return Err(Problem::new(code, "timeout_out_of_range", "timeout_seconds is 0 to 60"));
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        let client = app.db.tenant().await?;
        let job = client.call(async |c| rpc::get_job(c, tenant.id, id).await).await?;
        let over = matches!(job.status.as_str(), "succeeded" | "failed" | "dead" | "canceled");
        if over || Instant::now() >= until || app.ending.is_cancelled() {
            return Ok(Answer(WaitedJob { over, job: FullJob::new(tenant.id, job) }));
        }
        let mut place = app.waiters.enter(tenant.id, id)?;
        tokio::select! {
            () = place.over() => {}
            () = sleep_until(until) => {}
            () = app.ending.cancelled() => {}
        }
    }
}
