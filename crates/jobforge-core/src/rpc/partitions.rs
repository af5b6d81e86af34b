//! The history's partitions: made ahead, dropped whole.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::Columns;
use crate::error::Error;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioned {
    /// How many were made.
    pub made: i32,
    /// How many were dropped.
    pub dropped: i32,
    /// How many have to wait for the next round, because their tables were in use.
    pub refused: i32,
}

/// Makes up to `limit` missing partitions and drops up to `limit` expired ones.
pub async fn upkeep_partitions<C: GenericClient>(c: &C, term: i64, limit: i32) -> Result<Partitioned, Error> {
    const OPERATION: &str = "upkeep_partitions";
    let row = c
        .query_typed_one(
            "select u.made, u.dropped, u.refused
             from jobforge.upkeep_partitions(p_term => $1, p_limit => $2) as u",
            &[(&term, Type::INT8), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Partitioned { made: columns.take()?, dropped: columns.take()?, refused: columns.take()? })
}
