//! Keep alive: one call per worker and beat, whatever it runs.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::{JobColumns, JobRef};
use super::wire::Columns;
use crate::error::Error;

/// A beat's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Beat {
    /// When the lease ends without another beat.
    pub expires_at: Timestamp,
    /// The listed jobs that shall stop.
    pub canceled: Vec<JobRef>,
    /// The listed jobs that are no longer the worker's.
    pub lost: Vec<JobRef>,
}

/// Renews a lease. With `jobs` the answer tells which of them are canceled or lost; `through` says that the
/// worker holds nothing else of its claims up to that number.
pub async fn heartbeat<C: GenericClient>(
    c: &C,
    lease: Uuid,
    jobs: Option<&[JobRef]>,
    through: Option<i64>,
) -> Result<Beat, Error> {
    const OPERATION: &str = "heartbeat";
    let columns: Option<JobColumns> = jobs.map(|jobs| jobs.iter().copied().collect());
    let rows = c
        .query_typed(
            "select b.expires_at, b.tenant_id, b.id, b.problem from jobforge.heartbeat(p_lease_id => $1,
               p_tenant_ids => $2, p_job_ids => $3, p_fences => $4, p_through => $5) as b",
            &[
                (&lease, Type::UUID),
                (&columns.as_ref().map(|jobs| &jobs.tenant_ids), Type::UUID_ARRAY),
                (&columns.as_ref().map(|jobs| &jobs.ids), Type::UUID_ARRAY),
                (&columns.as_ref().map(|jobs| &jobs.fences), Type::INT4_ARRAY),
                (&through, Type::INT8),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let (first, problems) = rows.split_first().ok_or_else(|| Error::shape(OPERATION, "no rows"))?;
    let expires_at = Columns::of(OPERATION, first).take()?;
    let mut beat = Beat { expires_at, canceled: Vec::new(), lost: Vec::new() };
    if problems.is_empty() {
        return Ok(beat);
    }
    let listed: HashMap<(Uuid, Uuid), JobRef> =
        jobs.unwrap_or_default().iter().map(|job| ((job.tenant_id, job.id), *job)).collect();
    for row in problems {
        let mut columns = Columns::of(OPERATION, row).skip(1);
        let named = (columns.take()?, columns.take()?);
        let job = *listed.get(&named).ok_or_else(|| Error::shape(OPERATION, "a job that was not listed"))?;
        match columns.take()? {
            "canceled" => beat.canceled.push(job),
            "lost" => beat.lost.push(job),
            other => return Err(Error::shape(OPERATION, format_args!("problem {other}"))),
        }
    }
    Ok(beat)
}
