//! Prune: delete what has outlived its use.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::Columns;
use crate::error::Error;

/// What was deleted. A number equal to the limit says that there may be more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Idempotency keys.
    pub keys: i32,
    /// Workers long gone.
    pub workers: i32,
    /// Marks of sleepers that never woke.
    pub sleepers: i32,
    /// Samples of queues.
    pub stats: i32,
    /// Finished jobs outside the dated partitions.
    pub history: i32,
}

/// Deletes up to `limit` of each.
pub async fn prune<C: GenericClient>(c: &C, term: i64, limit: i32) -> Result<Pruned, Error> {
    const OPERATION: &str = "prune";
    let row = c
        .query_typed_one(
            "select p.keys, p.workers, p.sleepers, p.stats, p.history
             from jobforge.prune(p_term => $1, p_limit => $2) as p",
            &[(&term, Type::INT8), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Pruned {
        keys: columns.take()?,
        workers: columns.take()?,
        sleepers: columns.take()?,
        stats: columns.take()?,
        history: columns.take()?,
    })
}
