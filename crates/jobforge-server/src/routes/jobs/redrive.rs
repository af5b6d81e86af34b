//! Put one dead letter back to work, edited if asked.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Code, Payload, Redrive, RedriveRow, Redriven, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Operate, Tenant};
use crate::change::change;
use crate::extract::{Answer, BodyIfAny, Place};
use crate::problem::{ErrorCode, Problem};

/// What is done to it on the way; the body may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RedriveInput {
    /// A JSON Patch (RFC 6902) of its payload.
    #[schema(value_type = Option<Vec<serde_json::Value>>, example = json!([{"op": "replace", "path": "/to", "value": "a@b.example"}]))]
    patch: Option<Payload>,
    /// How often it may fail from now on.
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<i32>,
    /// Why, for the record.
    #[schema(max_length = 500)]
    reason: Option<String>,
}

/// A dead letter that waits again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedrivenJob {
    /// The job.
    id: Uuid,
    /// `queued`.
    status: String,
    /// The record of it, by which it is undone: `POST /bulk/{id}/undo`.
    operation_id: Option<Uuid>,
}

/// Put a dead letter back to work, with its payload edited where a patch is given.
#[utoipa::path(post, path = "/jobs/{id}/redrive", tag = "jobs", params(("id" = Uuid, Path)), request_body = Option<RedriveInput>, responses((status = 200, body = RedrivenJob)))]
pub(crate) async fn redrive(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Place(id): Place<Uuid>,
    BodyIfAny(input): BodyIfAny<RedriveInput>,
) -> Result<Answer<RedrivenJob>, Problem> {
    let RedriveInput { patch, max_attempts, reason } = input;
    let mut how = Redrive { patch, max_attempts, reason, dry_run: true };
    // A call writes its record also where nothing could be done: so it is made only where something can.
    call(&app, &tenant, id, &how).await?;
    how.dry_run = false;
    let operation_id = call(&app, &tenant, id, &how).await?;
    Ok(Answer(RedrivenJob { id, status: "queued".to_owned(), operation_id }))
}

/// The record of it; what the call leaves is refused.
async fn call(app: &App, tenant: &Tenant<Operate>, id: Uuid, how: &Redrive) -> Result<Option<Uuid>, Problem> {
    let redrive = async |c: &_| rpc::redrive_jobs(c, tenant.id, &Redriven::Jobs(&[id]), how).await;
    let done = change(app, tenant, redrive).await?;
    match done.jobs.iter().find(|job| job.verdict == "skipped") {
        Some(skipped) => Err(refusal(skipped)),
        None => Ok(done.operation_id),
    }
}

fn refusal(job: &RedriveRow) -> Problem {
    let code = job.error_code.as_deref().and_then(Code::parse).unwrap_or(Code::WrongState);
    let reason = job.error_reason.clone().unwrap_or_default();
    let detail = format!("redrive of job {} refused: {}", job.id, reason.replace('_', " "));
    Problem::new(ErrorCode::Refused(code), reason, detail)
}
