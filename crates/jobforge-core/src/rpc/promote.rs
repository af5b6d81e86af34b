//! Promote: make due work ready. Claims do it too; this is for when nobody claims.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::Columns;
use crate::error::Error;

/// Makes up to `limit` due jobs ready and wakes the sleepers; answers how many.
pub async fn promote_due<C: GenericClient>(c: &C, term: i64, limit: i32) -> Result<i32, Error> {
    const OPERATION: &str = "promote_due";
    let row = c
        .query_typed_one(
            "select jobforge.promote_due(p_term => $1, p_limit => $2)",
            &[(&term, Type::INT8), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
