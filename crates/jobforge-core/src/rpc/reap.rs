//! Reap: take back the jobs of leases that ran out.

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::Columns;
use crate::error::Error;

/// What was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// How many leases had run out.
    pub leases: i32,
    /// How many of their jobs had not started and wait again as if nothing had been.
    pub free: i32,
    /// How many may have started and count a death.
    pub deaths: i32,
    /// When the next lease runs out unless it is renewed.
    pub next_expiry: Option<Timestamp>,
}

/// Takes back the jobs of up to `limit` leases.
pub async fn reap<C: GenericClient>(c: &C, term: i64, limit: i32) -> Result<Reaped, Error> {
    const OPERATION: &str = "reap";
    let row = c
        .query_typed_one(
            "select r.leases, r.free, r.deaths, r.next_expiry
             from jobforge.reap(p_term => $1, p_limit => $2) as r",
            &[(&term, Type::INT8), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Reaped {
        leases: columns.take()?,
        free: columns.take()?,
        deaths: columns.take()?,
        next_expiry: columns.take()?,
    })
}
