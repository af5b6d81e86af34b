//! Cancel: end a waiting job, ask a running one to stop.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::{Columns, clean};
use crate::error::Error;

/// What a cancel did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canceled {
    /// `canceled`, or `running` until its worker has stopped it.
    pub status: String,
    /// Whether its worker was asked to stop it.
    pub cancel_requested: bool,
}

/// Cancels a waiting job or dead letter at once; asks a running one to stop.
pub async fn cancel_job<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    id: Uuid,
    reason: Option<&str>,
) -> Result<Canceled, Error> {
    const OPERATION: &str = "cancel_job";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select x.status, x.cancel_requested from t cross join lateral jobforge.cancel_job(
               p_tenant_id => t.tenant::uuid, p_job_id => $2, p_reason => $3) as x",
            &[(&tenant, Type::UUID), (&id, Type::UUID), (&reason.map(clean), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Canceled { status: columns.take()?, cancel_requested: columns.take()? })
}
