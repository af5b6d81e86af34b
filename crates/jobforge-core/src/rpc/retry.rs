//! Retry: run a waiting job or dead letter now.

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::Columns;
use crate::error::Error;

/// A job that waits again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retried {
    /// Its status.
    pub status: String,
    /// When it runs.
    pub run_at: Timestamp,
}

/// Runs a waiting job or dead letter now; a dead letter starts with no failures.
pub async fn retry_job<C: GenericClient>(c: &C, tenant: Uuid, id: Uuid) -> Result<Retried, Error> {
    const OPERATION: &str = "retry_job";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select r.status, r.run_at from t cross join lateral jobforge.retry_job(
               p_tenant_id => t.tenant::uuid, p_job_id => $2) as r",
            &[(&tenant, Type::UUID), (&id, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Retried { status: columns.take()?, run_at: columns.take()? })
}
