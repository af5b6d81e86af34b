//! Objects of the artifact store: announced before they are written, held by the jobs that name them.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::JobRef;
use crate::artifact::{ArtifactId, ArtifactRef};
use crate::error::Error;

/// Says that an object is about to be written: for a day nobody collects it. Not inside the transaction that
/// enqueues: this must be known though that one fails.
pub async fn announce_artifact<C: GenericClient>(c: &C, tenant: Uuid, id: ArtifactId) -> Result<(), Error> {
    c.query_typed_one(
        "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
         select jobforge.announce_artifact(p_tenant_id => t.tenant::uuid, p_ref => $2) from t",
        &[(&tenant, Type::UUID), (&id.to_string(), Type::TEXT)],
    )
    .await
    .map_err(|error| Error::call("announce_artifact", error))?;
    Ok(())
}

/// Lets a job hold the object that its payload names, in the transaction that enqueued it.
pub async fn attach_artifact<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    job: Uuid,
    artifact: ArtifactRef,
) -> Result<(), Error> {
    c.query_typed_one(
        "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
         select jobforge.attach_artifact(p_tenant_id => t.tenant::uuid, p_job_id => $2, p_ref => $3, p_bytes => $4) from t",
        &[
            (&tenant, Type::UUID),
            (&job, Type::UUID),
            (&artifact.id().to_string(), Type::TEXT),
            (&bytes(artifact), Type::INT8),
        ],
    )
    .await
    .map_err(|error| Error::call("attach_artifact", error))?;
    Ok(())
}

/// Lets a running job hold the object that its result is about to be written to.
pub async fn hold_result<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    artifact: ArtifactRef,
) -> Result<(), Error> {
    c.query_typed_one(
        "select jobforge.hold_result(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3, p_fence => $4, p_ref => $5,
           p_bytes => $6)",
        &[
            (&lease, Type::UUID),
            (&job.tenant_id, Type::UUID),
            (&job.id, Type::UUID),
            (&job.fence, Type::INT4),
            (&artifact.id().to_string(), Type::TEXT),
            (&bytes(artifact), Type::INT8),
        ],
    )
    .await
    .map_err(|error| Error::call("hold_result", error))?;
    Ok(())
}

/// What does not fit is out of the function's range too.
fn bytes(artifact: ArtifactRef) -> i64 {
    i64::try_from(artifact.bytes()).unwrap_or(i64::MAX)
}
