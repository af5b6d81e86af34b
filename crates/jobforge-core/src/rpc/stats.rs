//! Samples of depths, arrivals and ends.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::Columns;
use crate::error::Error;

/// Samples queues and tenants over about `limit` live and as many finished jobs; answers how many queues there are.
pub async fn sample_stats<C: GenericClient>(c: &C, term: i64, limit: i32) -> Result<i32, Error> {
    const OPERATION: &str = "sample_stats";
    let row = c
        .query_typed_one(
            "select jobforge.sample_stats(p_term => $1, p_limit => $2)",
            &[(&term, Type::INT8), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
