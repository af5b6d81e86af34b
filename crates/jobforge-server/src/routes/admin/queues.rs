//! The queues across tenants.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{QueueSummary, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// How close a look.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct QueueParams {
    /// About how many live jobs are counted; of more, depths are estimated.
    #[serde(default = "usual_limit")]
    #[param(minimum = 1, maximum = 1_000_000, default = 100_000)]
    limit: i32,
}

/// The queues there are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queues {
    /// The queues.
    queues: Vec<QueueSummary>,
}

/// List queues: depths, rates, workers, pauses.
#[utoipa::path(get, path = "/admin/queues", operation_id = "list_queues", tag = "operate", params(QueueParams), responses((status = 200, body = Queues)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Params(params): Params<QueueParams>,
) -> Result<Answer<Queues>, Problem> {
    let client = app.db.operator().await?;
    let queues = client.call(async |c| rpc::queue_summary(c, params.limit).await).await?;
    Ok(Answer(Queues { queues }))
}

fn usual_limit() -> i32 {
    100_000
}
