//! How long a transaction waits for locks that others hold.

use std::time::Duration;

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use crate::error::Error;

/// Bounds the waits for locks in the rest of this transaction; outside of one it says nothing.
pub(super) async fn limit_locks<C: GenericClient>(
    c: &C,
    operation: &'static str,
    limit: Duration,
) -> Result<(), Error> {
    let text = format!("{}ms", limit.as_millis().max(1));
    c.query_typed("select set_config('lock_timeout', $1, true)", &[(&text, Type::TEXT)])
        .await
        .map_err(|error| Error::call(operation, error))?;
    Ok(())
}
