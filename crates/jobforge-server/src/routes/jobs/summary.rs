//! A tenant's jobs in numbers.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Summary, rpc};

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::extract::Answer;
use crate::problem::Problem;

/// So many live jobs are counted one by one.
const COUNTED: i32 = 10_000;

/// Count jobs by status, with what came and went of late.
#[utoipa::path(get, path = "/jobs/summary", tag = "jobs", responses((status = 200, body = Summary)))]
pub(crate) async fn summary(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
) -> Result<Answer<Summary>, Problem> {
    let client = app.db.tenant().await?;
    client.call(async |c| rpc::job_summary(c, tenant.id, COUNTED).await).await.map(Answer)
}
