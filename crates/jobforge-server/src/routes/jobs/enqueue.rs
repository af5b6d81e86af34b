//! Enqueue one job, or many.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jobforge_core::{NewJob, Payload, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Enqueue, Tenant};
use crate::extract::{Answer, Body};
use crate::problem::Problem;

/// A job to be made. What is left out comes from its definition.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobInput {
    /// The key of its definition.
    #[serde(rename = "type", alias = "definition_key")]
    #[schema(example = "demo.echo")]
    job_type: String,
    /// What the job is given; it must fit the definition's schema.
    #[schema(value_type = serde_json::Value)]
    payload: Option<Payload>,
}

/// A job that was taken in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TakenIn {
    /// The job.
    id: Uuid,
    /// Whose it is.
    tenant_id: Uuid,
    /// Its type.
    #[serde(rename = "type")]
    job_type: String,
    /// `queued`, or what became of it meanwhile.
    status: String,
    /// Whether a key named a job that was there already.
    existing: bool,
    /// When it was enqueued.
    queued_at: Timestamp,
    /// When it is due.
    run_at: Timestamp,
}

/// Enqueue a job.
#[utoipa::path(post, path = "/jobs", tag = "jobs", request_body = JobInput, responses((status = 201, body = TakenIn)))]
pub(crate) async fn enqueue(
    State(app): State<Arc<App>>,
    tenant: Tenant<Enqueue>,
    Body(input): Body<JobInput>,
) -> Result<Response, Problem> {
    let payload = match input.payload {
        Some(payload) => payload,
        None => serde_json::value::to_raw_value(&serde_json::json!({})).unwrap_or_default(),
    };
    let job = NewJob::raw(input.job_type, payload);
    let client = app.db.tenant().await?;
    let answer = rpc::enqueue_job(&*client, tenant.id, &job).await;
    let done = client.done(answer)?;
    let taken = TakenIn {
        id: done.id,
        tenant_id: tenant.id,
        job_type: job.job_type,
        status: done.status,
        existing: done.existing,
        queued_at: done.run_at,
        run_at: done.run_at,
    };
    Ok((StatusCode::CREATED, Answer(taken)).into_response())
}
