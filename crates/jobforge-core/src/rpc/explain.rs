//! Why a job does not run, and when it will.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::Payload;
use super::wire::Columns;
use crate::error::Error;

/// One thing that keeps a job from running, or what became of it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reason {
    /// What it is, for programs: `scheduled`, `queue_paused`, `waiting_turn`, …
    pub reason: String,
    /// What is known about it, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub detail: Payload,
    /// When it ends, where that is known; for `waiting_turn` an estimate.
    pub until: Option<Timestamp>,
    /// The same for people.
    pub says: String,
}

/// What a job waits for, the decisive reason first; or who runs it, or how it ended.
pub async fn explain_job<C: GenericClient>(c: &C, tenant: Uuid, id: Uuid) -> Result<Vec<Reason>, Error> {
    const OPERATION: &str = "explain_job";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select e.reason, e.detail, e.until, e.says
             from t cross join lateral jobforge.explain_job(p_tenant_id => t.tenant::uuid, p_job_id => $2) as e",
            &[(&tenant, Type::UUID), (&id, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let read = |columns: &mut Columns<'_>| {
        Ok(Reason {
            reason: columns.take()?,
            detail: columns.json()?,
            until: columns.take()?,
            says: columns.take()?,
        })
    };
    rows.iter().map(|row| read(&mut Columns::of(OPERATION, row))).collect()
}
