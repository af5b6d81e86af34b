//! Dead letters by cause.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{DeadLetterFilter, DeadLetterGroup, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// Which dead letters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GroupParams {
    /// Only of this type.
    #[serde(rename = "type", alias = "definition_key")]
    job_type: Option<String>,
    /// Only of this queue.
    queue: Option<String>,
    /// That died at or after this time.
    failed_after: Option<Timestamp>,
    /// That died before this time.
    failed_before: Option<Timestamp>,
    /// The most groups, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i32>,
}

/// Dead letters by cause.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterGroups {
    /// The largest first.
    groups: Vec<DeadLetterGroup>,
}

/// Group dead letters by their cause.
#[utoipa::path(get, path = "/dead-letters/groups", tag = "dead letters", params(GroupParams), responses((status = 200, body = DeadLetterGroups)))]
pub(crate) async fn groups(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Params(params): Params<GroupParams>,
) -> Result<Answer<DeadLetterGroups>, Problem> {
    let filter = DeadLetterFilter {
        fingerprint: None,
        job_type: params.job_type,
        queue: params.queue,
        failed_after: params.failed_after,
        failed_before: params.failed_before,
    };
    let client = app.db.tenant().await?;
    client
        .call(async |c| rpc::group_dead_letters(c, tenant.id, &filter, params.limit.unwrap_or(50)).await)
        .await
        .map(|groups| Answer(DeadLetterGroups { groups }))
}
