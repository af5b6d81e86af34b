//! A page of dead letters, the last to die first.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{DeadLetterFilter, DeadLetterPage, rpc};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::cursor;
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// Which dead letters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeadLetterParams {
    /// Only of this cause, as groups and lists tell it.
    fingerprint: Option<String>,
    /// Only of this type.
    #[serde(rename = "type", alias = "definition_key")]
    job_type: Option<String>,
    /// Only of this queue.
    queue: Option<String>,
    /// That died at or after this time.
    failed_after: Option<Timestamp>,
    /// That died before this time.
    failed_before: Option<Timestamp>,
    /// The most dead letters, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// List dead letters.
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", params(DeadLetterParams), responses((status = 200, body = DeadLetterPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Params(params): Params<DeadLetterParams>,
) -> Result<Answer<DeadLetterPage>, Problem> {
    let cursor = params.cursor.as_deref().map(cursor::read::<String>).transpose()?;
    let filter = DeadLetterFilter {
        fingerprint: params.fingerprint,
        job_type: params.job_type,
        queue: params.queue,
        failed_after: params.failed_after,
        failed_before: params.failed_before,
    };
    let limit = params.limit.unwrap_or(50);
    let client = app.db.tenant().await?;
    let page = client
        .call(async |c| rpc::list_dead_letters(c, tenant.id, &filter, limit, cursor.as_deref()).await)
        .await?;
    let next_cursor = page.next_cursor.as_ref().map(cursor::write);
    Ok(Answer(DeadLetterPage { next_cursor, ..page }))
}
