//! Reschedule: move a waiting job in time, or change how often it may fail.

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::Columns;
use crate::error::Error;

/// A waiting job as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescheduled {
    /// Its status.
    pub status: String,
    /// When it runs.
    pub run_at: Timestamp,
    /// How often it may fail.
    pub max_attempts: i32,
}

/// Moves a waiting job in time (a past time means now) or changes how often it may fail.
pub async fn reschedule_job<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    id: Uuid,
    run_at: Option<Timestamp>,
    max_attempts: Option<i32>,
) -> Result<Rescheduled, Error> {
    const OPERATION: &str = "reschedule_job";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select r.status, r.run_at, r.max_attempts from t cross join lateral jobforge.reschedule_job(
               p_tenant_id => t.tenant::uuid, p_job_id => $2, p_run_at => $3, p_max_attempts => $4) as r",
            &[
                (&tenant, Type::UUID),
                (&id, Type::UUID),
                (&run_at, Type::TIMESTAMPTZ),
                (&max_attempts, Type::INT4),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Rescheduled { status: columns.take()?, run_at: columns.take()?, max_attempts: columns.take()? })
}
