//! Move a job in time.

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
use crate::extract::{Answer, Body, Place};
use crate::problem::Problem;

/// What changes; at least one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RescheduleInput {
    /// Not before this time; one in the past means now. `scheduled_for` is taken too.
    #[serde(alias = "scheduled_for")]
    run_at: Option<Timestamp>,
    /// How often it may fail.
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<i32>,
}

/// A waiting job as it stands now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RescheduledJob {
    /// The job.
    id: Uuid,
    /// Its status.
    status: String,
    /// When it runs.
    run_at: Timestamp,
    /// How often it may fail.
    max_attempts: i32,
}

/// Move a waiting job in time, or change how often it may fail.
#[utoipa::path(post, path = "/jobs/{id}/reschedule", tag = "jobs", params(("id" = Uuid, Path)), request_body = RescheduleInput, responses((status = 200, body = RescheduledJob)))]
pub(crate) async fn reschedule(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Place(id): Place<Uuid>,
    Body(RescheduleInput { run_at, max_attempts }): Body<RescheduleInput>,
) -> Result<Answer<RescheduledJob>, Problem> {
    let call = async |c: &_| rpc::reschedule_job(c, tenant.id, id, run_at, max_attempts).await;
    let done = change(&app, &tenant, call).await?;
    Ok(Answer(RescheduledJob {
        id,
        status: done.status,
        run_at: done.run_at,
        max_attempts: done.max_attempts,
    }))
}
