//! A tenant's jobs in numbers.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Summary, rpc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::extract::Answer;
use crate::problem::Problem;

/// So many live jobs are counted one by one.
const COUNTED: i32 = 10_000;

/// A tenant's jobs in numbers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobNumbers {
    /// Waiting, due or not: what is scheduled and what is ready.
    queued: i64,
    #[serde(flatten)]
    summary: Summary,
}

/// Count jobs by status, with what came and went of late.
#[utoipa::path(get, path = "/jobs/summary", tag = "jobs", responses((status = 200, body = JobNumbers)))]
pub(crate) async fn summary(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
) -> Result<Answer<JobNumbers>, Problem> {
    let client = app.db.tenant().await?;
    let summary = client.call(async |c| rpc::job_summary(c, tenant.id, COUNTED).await).await?;
    Ok(Answer(JobNumbers { queued: summary.scheduled + summary.ready, summary }))
}
