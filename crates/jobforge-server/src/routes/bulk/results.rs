//! What became of each job of an operation.

use std::sync::Arc;

use axum::extract::State;
use futures_util::future::try_join;
use jobforge_core::{BulkResult, ResultsOf, rpc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::list::{PageParams, next_cursor};
use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::extract::{Answer, Params, Place};
use crate::problem::Problem;

/// A page of results.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkResults {
    /// What became of each job, in the order of their ids.
    results: Vec<BulkResult>,
    /// How to get the next page, if there may be one.
    next_cursor: Option<String>,
}

/// List what became of an operation's jobs, so far.
#[utoipa::path(get, path = "/bulk/{id}/results", tag = "bulk operations", params(("id" = Uuid, Path), PageParams), responses((status = 200, body = BulkResults)))]
pub(crate) async fn results(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Place(id): Place<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Answer<BulkResults>, Problem> {
    let (limit, after) = params.read()?;
    let client = app.db.tenant().await?;
    // One that is not there has no results either: the look refuses it. Both are sent at once.
    let (_, results) = client
        .call(async |c| {
            let looks = try_join(
                rpc::get_bulk(c, tenant.id, id),
                rpc::list_bulk_results(c, tenant.id, ResultsOf::Operation(id), limit, after),
            );
            rpc::at_once(c, looks).await
        })
        .await?;
    let next_cursor = next_cursor(&results, limit, |result| result.job_id);
    Ok(Answer(BulkResults { results, next_cursor }))
}
