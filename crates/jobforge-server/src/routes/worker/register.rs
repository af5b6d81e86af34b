//! Make a worker known.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Payload, Registration, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::require_names;
use crate::app::App;
use crate::auth::{System, Work};
use crate::extract::{Answer, Body};
use crate::problem::Problem;

/// A worker that makes itself known.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegisterBody {
    /// A name that stays while the process lives and that no other process of this credential has; made if it is left out.
    #[schema(min_length = 1, max_length = 100)]
    worker_id: Option<String>,
    /// The machine.
    host: String,
    /// The process.
    pid: Option<i32>,
    /// The program's version.
    version: String,
    /// Where it looks for work, 1 to 50 queues.
    queues: Vec<String>,
    /// What it can run, 1 to 500 types; `definition_keys` is taken too.
    #[serde(alias = "definition_keys")]
    types: Vec<String>,
    /// How many jobs it runs at once.
    #[serde(default = "one")]
    #[schema(default = 1, minimum = 1)]
    slots: i32,
    /// Whatever else is worth knowing: a JSON object of at most 16 KiB.
    #[schema(value_type = Option<serde_json::Value>)]
    metadata: Option<Payload>,
}

/// A worker that is known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RegisteredWorker {
    /// Under this name it claims.
    worker_id: String,
}

fn one() -> i32 {
    1
}

/// Make a worker known, or refresh what is known of it. Its entry belongs to the credential: another credential that gives
/// the same id has another worker.
#[utoipa::path(post, path = "/worker/register", tag = "worker", request_body = RegisterBody, responses((status = 200, body = RegisteredWorker)))]
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    caller: System<Work>,
    Body(body): Body<RegisterBody>,
) -> Result<Answer<RegisteredWorker>, Problem> {
    let worker_id = body.worker_id.unwrap_or_else(|| Uuid::new_v4().to_string());
    require_names([&body.host, &body.version].into_iter().chain(&body.queues).chain(&body.types))?;
    if body.metadata.as_ref().is_some_and(|metadata| !metadata.get().starts_with('{')) {
        return Err(Problem::malformed("metadata_malformed", "metadata is a JSON object").at("/metadata"));
    }
    let worker = Registration {
        worker_id: caller.worker_id(&worker_id)?,
        host: body.host,
        pid: body.pid,
        version: body.version,
        queues: body.queues,
        types: body.types,
        slots: body.slots,
        metadata: body.metadata,
    };
    let client = app.db.worker().await?;
    client.call(async |c| rpc::bound_to(c, caller.bound(), rpc::register_worker(c, &worker)).await).await?;
    Ok(Answer(RegisteredWorker { worker_id }))
}
