//! What a job gave back.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Code, Payload, rpc};
use serde_json::value::to_raw_value;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Look, Tenant};
use crate::extract::{Answer, Place};
use crate::problem::{ErrorCode, Problem};

/// Get a job's result alone, redacted by its definition; `null` where it gave none. A result too large for a row is
/// answered as what stands for it, `{"$artifact": {"ref": …, "bytes": …}}`. A job that did not succeed, or not yet, is
/// refused with JF008 and its status as the reason: `job_running`, `job_dead`.
#[utoipa::path(get, path = "/jobs/{id}/result", tag = "jobs", params(("id" = Uuid, Path)), responses((status = 200, body = serde_json::Value)))]
pub(crate) async fn result(
    State(app): State<Arc<App>>,
    tenant: Tenant<Look>,
    Place(id): Place<Uuid>,
) -> Result<Answer<Payload>, Problem> {
    let client = app.db.tenant().await?;
    let job = client.call(async |c| rpc::get_job(c, tenant.id, id).await).await?;
    match job.result {
        Some(result) => Ok(Answer(result)),
        None if job.status == "succeeded" => Ok(Answer(to_raw_value(&()).unwrap_or_default())),
        None => Err(Problem::new(
            ErrorCode::Refused(Code::WrongState),
            format!("job_{}", job.status),
            format!("job {id} has no result: it is {}", job.status),
        )),
    }
}
