//! Which of many jobs are over.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::Columns;
use crate::error::Error;

/// A job that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishedJob {
    /// Whose it is.
    pub tenant_id: Uuid,
    /// The job.
    pub id: Uuid,
    /// `succeeded`, `canceled`, `failed` or `dead`.
    pub status: String,
    /// When it was over.
    pub finished_at: Timestamp,
}

/// Those of these jobs, each a tenant and an id, that are over; at most 10000 are asked for. Across tenants: whoever
/// calls answers each waiter for its own tenant only.
pub async fn finished_jobs<C: GenericClient>(
    c: &C,
    jobs: &[(Uuid, Uuid)],
) -> Result<Vec<FinishedJob>, Error> {
    const OPERATION: &str = "finished_jobs";
    let (tenants, ids): (Vec<Uuid>, Vec<Uuid>) = jobs.iter().copied().unzip();
    let rows = c
        .query_typed(
            "select f.tenant_id, f.id, f.status, f.finished_at
             from jobforge.finished_jobs(p_tenant_ids => $1, p_job_ids => $2) as f",
            &[(&tenants, Type::UUID_ARRAY), (&ids, Type::UUID_ARRAY)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(OPERATION, row);
            Ok(FinishedJob {
                tenant_id: columns.take()?,
                id: columns.take()?,
                status: columns.take()?,
                finished_at: columns.take()?,
            })
        })
        .collect()
}
