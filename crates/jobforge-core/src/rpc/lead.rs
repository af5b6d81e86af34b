//! Leadership of the upkeep, under a term that only grows. An optimisation: every duty is safe without it.

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::Columns;
use crate::error::Error;

/// Who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The term; duties of an older one are refused.
    pub term: i64,
    /// Whether it is the one who asked.
    pub leads: bool,
    /// When the leadership ends unless it is kept.
    pub expires_at: Timestamp,
}

/// Takes or keeps the leadership.
pub async fn lead<C: GenericClient>(c: &C, holder: &str, seconds: i32) -> Result<Leadership, Error> {
    const OPERATION: &str = "lead";
    let row = c
        .query_typed_one(
            "select l.term, l.leads, l.expires_at from jobforge.lead(p_holder => $1, p_seconds => $2) as l",
            &[(&holder, Type::TEXT), (&seconds, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Leadership { term: columns.take()?, leads: columns.take()?, expires_at: columns.take()? })
}

/// Gives the leadership up; false if somebody else leads.
pub async fn resign<C: GenericClient>(c: &C, holder: &str) -> Result<bool, Error> {
    const OPERATION: &str = "resign";
    let sql = "select jobforge.resign(p_holder => $1)";
    let row = c
        .query_typed_one(sql, &[(&holder, Type::TEXT)])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
