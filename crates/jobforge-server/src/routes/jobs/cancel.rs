//! Cancel a job.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::rpc;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Operate, Tenant};
use crate::change::change;
use crate::extract::{Answer, BodyIfAny, Place};
use crate::problem::Problem;

/// Why; the body may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CancelInput {
    /// The job's error says it, cut to 1000 characters.
    reason: Option<String>,
}

/// What a cancel did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CanceledJob {
    /// The job.
    id: Uuid,
    /// `canceled`, or `running` until its worker has stopped it.
    status: String,
    /// Whether its worker was asked to stop it.
    cancel_requested: bool,
}

/// Cancel a waiting job or dead letter at once, or ask a running one to stop.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = Uuid, Path)), request_body = Option<CancelInput>, responses((status = 200, body = CanceledJob)))]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Place(id): Place<Uuid>,
    BodyIfAny(input): BodyIfAny<CancelInput>,
) -> Result<Answer<CanceledJob>, Problem> {
    let reason = input.reason.as_deref();
    let done = change(&app, &tenant, async |c| rpc::cancel_job(c, tenant.id, id, reason).await).await?;
    Ok(Answer(CanceledJob { id, status: done.status, cancel_requested: done.cancel_requested }))
}
