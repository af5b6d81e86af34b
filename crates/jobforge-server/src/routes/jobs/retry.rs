//! Run a job now.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::rpc;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Operate, Tenant};
use crate::change::change;
use crate::extract::{Answer, BodyIfAny, Place};
use crate::problem::Problem;

/// Nothing: the body may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoInput {}

/// A job that waits again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetriedJob {
    /// The job.
    id: Uuid,
    /// Its status.
    status: String,
    /// When it runs.
    run_at: Timestamp,
}

/// Run a waiting job or dead letter now; a dead letter starts with no failures.
#[utoipa::path(post, path = "/jobs/{id}/retry", tag = "jobs", params(("id" = Uuid, Path)), request_body = Option<NoInput>, responses((status = 200, body = RetriedJob)))]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Place(id): Place<Uuid>,
    BodyIfAny(NoInput {}): BodyIfAny<NoInput>,
) -> Result<Answer<RetriedJob>, Problem> {
    let done = change(&app, &tenant, async |c| rpc::retry_job(c, tenant.id, id).await).await?;
    Ok(Answer(RetriedJob { id, status: done.status, run_at: done.run_at }))
}
