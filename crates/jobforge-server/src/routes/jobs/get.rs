//! Everything about one job.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{Job, rpc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Look, Tenant};
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// A job, its payload and result redacted by its definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FullJob {
    /// Whose it is.
    tenant_id: Uuid,
    /// When it was enqueued.
    queued_at: Timestamp,
    #[serde(flatten)]
    job: Job,
}

impl FullJob {
    pub(crate) fn new(tenant_id: Uuid, job: Job) -> FullJob {
        FullJob { tenant_id, queued_at: job.created_at, job }
    }
}

/// Look at a job.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = Uuid, Path)), responses((status = 200, body = FullJob)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    tenant: Tenant<Look>,
    Place(id): Place<Uuid>,
) -> Result<Answer<FullJob>, Problem> {
    let client = app.db.tenant().await?;
    let answer = rpc::get_job(&*client, tenant.id, id).await;
    let job = client.done(answer)?;
    Ok(Answer(FullJob::new(tenant.id, job)))
}
