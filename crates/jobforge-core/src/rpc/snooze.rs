//! Snooze: put a running job off without counting the attempt as a failure.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::JobRef;
use super::wire::Columns;
use crate::error::Error;

/// Puts a running job off; tells when it runs again.
pub async fn snooze_job<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    delay: Duration,
) -> Result<Timestamp, Error> {
    const OPERATION: &str = "snooze_job";
    let row = c
        .query_typed_one(
            "select jobforge.snooze_job(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3, p_fence => $4,
               p_seconds => $5)",
            &[
                (&lease, Type::UUID),
                (&job.tenant_id, Type::UUID),
                (&job.id, Type::UUID),
                (&job.fence, Type::INT4),
                (&delay.as_secs_f64(), Type::FLOAT8),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
