//! Why a job does not run, and when it will.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Reason, rpc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Look, Tenant};
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// What a job waits for, or what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// The decisive one first.
    reasons: Vec<Reason>,
}

/// Say why a job does not run.
#[utoipa::path(get, path = "/jobs/{id}/explain", tag = "jobs", params(("id" = Uuid, Path)), responses((status = 200, body = Explanation)))]
pub(crate) async fn explain(
    State(app): State<Arc<App>>,
    tenant: Tenant<Look>,
    Place(id): Place<Uuid>,
) -> Result<Answer<Explanation>, Problem> {
    let client = app.db.tenant().await?;
    client
        .call(async |c| rpc::explain_job(c, tenant.id, id).await)
        .await
        .map(|reasons| Answer(Explanation { reasons }))
}
