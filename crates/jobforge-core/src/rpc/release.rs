//! Give back: jobs that shall run elsewhere, without anything counted against them.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::{JobColumns, JobRef, Verdict};
use super::wire::{Columns, in_order};
use crate::error::Error;

const OPERATION: &str = "release_jobs";

/// Gives jobs back; the verdicts are in their order.
pub async fn release_jobs<C: GenericClient>(
    c: &C,
    lease: Uuid,
    jobs: &[JobRef],
) -> Result<Vec<Verdict>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let columns: JobColumns = jobs.iter().copied().collect();
    let rows = c
        .query_typed(
            "select r.at, r.verdict from jobforge.release_jobs(p_lease_id => $1, p_tenant_ids => $2,
               p_job_ids => $3, p_fences => $4) as r",
            &[
                (&lease, Type::UUID),
                (&columns.tenant_ids, Type::UUID_ARRAY),
                (&columns.ids, Type::UUID_ARRAY),
                (&columns.fences, Type::INT4_ARRAY),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let answers = rows.iter().map(|row| {
        let mut columns = Columns::of(OPERATION, row);
        Ok((columns.take()?, Verdict::parse(OPERATION, columns.take()?)?))
    });
    in_order(OPERATION, jobs.len(), answers)
}

/// Gives back whatever is still on the lease, known to the worker or not, and ends the lease.
pub async fn close_lease<C: GenericClient>(c: &C, lease: Uuid) -> Result<(), Error> {
    let sql = "select from jobforge.release_jobs(p_lease_id => $1)";
    c.query_typed(sql, &[(&lease, Type::UUID)]).await.map_err(|error| Error::call(OPERATION, error))?;
    Ok(())
}

/// Gives back whatever else is on a living lease, which goes on: `known` is all that its worker knows of, at least one job.
/// Tells how many went back.
pub async fn release_others<C: GenericClient>(c: &C, lease: Uuid, known: &[JobRef]) -> Result<i32, Error> {
    const OPERATION: &str = "release_others";
    let columns: JobColumns = known.iter().copied().collect();
    let row = c
        .query_typed_one(
            "select jobforge.release_others(p_lease_id => $1, p_tenant_ids => $2, p_job_ids => $3, p_fences => $4)",
            &[
                (&lease, Type::UUID),
                (&columns.tenant_ids, Type::UUID_ARRAY),
                (&columns.ids, Type::UUID_ARRAY),
                (&columns.fences, Type::INT4_ARRAY),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
