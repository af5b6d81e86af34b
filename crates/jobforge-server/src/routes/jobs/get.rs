//! Everything about one job.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jobforge_core::{Job, rpc};
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Look, Tenant};
use crate::etag;
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// Bytes of a digest that tell two states of a job apart.
const TAG: usize = 16;

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

/// Look at a job. Whoever asks again with the answer's `ETag` in `If-None-Match` is told 304 while nothing has changed:
/// neither status nor attempt nor progress, nor anything else that is shown.
#[utoipa::path(
    get, path = "/jobs/{id}", tag = "jobs",
    params(("id" = Uuid, Path), ("If-None-Match" = Option<String>, Header, description = "The ETag of an earlier answer")),
    responses(
        (status = 200, body = FullJob, headers(("ETag" = String, description = "Stands for the job as it is"))),
        (status = 304, description = "It is as it was"),
    )
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    tenant: Tenant<Look>,
    Place(id): Place<Uuid>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let client = app.db.tenant().await?;
    let job = FullJob::new(tenant.id, client.call(async |c| rpc::get_job(c, tenant.id, id).await).await?);
    let tag = serde_json::to_vec(&job).ok().map(|text| digest(&text));
    let mut response = match &tag {
        Some(tag) if etag::is_known(&headers, tag) => StatusCode::NOT_MODIFIED.into_response(),
        _ => Answer(job).into_response(),
    };
    let tag = tag.and_then(|tag| HeaderValue::from_str(&format!("W/\"{tag}\"")).ok());
    response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
    Ok(response)
}

fn digest(text: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..TAG])
}
