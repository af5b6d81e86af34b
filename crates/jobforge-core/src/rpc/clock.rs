//! The only clock.

use jiff::Timestamp;
use tokio_postgres::GenericClient;

use super::wire::Columns;
use crate::error::Error;

/// The time, as the database has it.
pub async fn clock<C: GenericClient>(c: &C) -> Result<Timestamp, Error> {
    const OPERATION: &str = "clock";
    let row = c
        .query_typed_one("select jobforge.clock()", &[])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
