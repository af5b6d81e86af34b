//! Progress: how far a running job is.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::JobRef;
use super::wire::clean;
use crate::error::Error;

/// Tells how far a running job is, 0 to 100.
pub async fn report_progress<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    percent: f32,
    message: &str,
) -> Result<(), Error> {
    const OPERATION: &str = "report_progress";
    c.query_typed_one(
        "select jobforge.report_progress(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3,
           p_fence => $4, p_percent => $5, p_message => $6)",
        &[
            (&lease, Type::UUID),
            (&job.tenant_id, Type::UUID),
            (&job.id, Type::UUID),
            (&job.fence, Type::INT4),
            (&percent, Type::FLOAT4),
            (&clean(message), Type::TEXT),
        ],
    )
    .await
    .map_err(|error| Error::call(OPERATION, error))?;
    Ok(())
}
