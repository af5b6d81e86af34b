//! A job's attempts.

use std::sync::Arc;

use axum::extract::State;
use futures_util::future::try_join;
use jobforge_core::{Attempt, rpc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Look, Tenant};
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// A job's attempts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempts {
    /// In their order.
    attempts: Vec<Attempt>,
}

/// List a job's attempts.
#[utoipa::path(get, path = "/jobs/{id}/attempts", tag = "jobs", params(("id" = Uuid, Path)), responses((status = 200, body = Attempts)))]
pub(crate) async fn attempts(
    State(app): State<Arc<App>>,
    tenant: Tenant<Look>,
    Place(id): Place<Uuid>,
) -> Result<Answer<Attempts>, Problem> {
    let client = app.db.tenant().await?;
    // A job that is not there has no attempts either: the look refuses it. Both are sent at once.
    client
        .call(async |c| {
            let looks = try_join(rpc::get_job(c, tenant.id, id), rpc::list_attempts(c, tenant.id, id));
            rpc::at_once(c, looks).await
        })
        .await
        .map(|(_, attempts)| Answer(Attempts { attempts }))
}
