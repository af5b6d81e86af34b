//! Sleep: who sleeps says so, and one sleeper looks each second for all of them.

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::Columns;
use crate::error::Error;

/// What one sleeper's look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether this worker is the one that looks for all.
    pub sentinel: bool,
    /// Whether there is work for any sleeper; only the sentinel knows.
    pub found_work: Option<bool>,
    /// When the next waiting job falls due.
    pub next_due: Option<Timestamp>,
}

/// Marks a worker asleep for its lanes, until the time it answers: from now on an enqueue for them
/// notifies. The worker must look once more after it.
pub async fn sleep_worker<C: GenericClient>(
    c: &C,
    worker_id: &str,
    queues: &[String],
    types: &[String],
    seconds: i32,
) -> Result<Timestamp, Error> {
    const OPERATION: &str = "sleep_worker";
    let row = c
        .query_typed_one(
            "select jobforge.sleep_worker(p_worker_id => $1, p_queues => $2, p_types => $3, p_seconds => $4)",
            &[
                (&worker_id, Type::TEXT),
                (&queues, Type::TEXT_ARRAY),
                (&types, Type::TEXT_ARRAY),
                (&seconds, Type::INT4),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// Takes the mark back; false if there was none.
pub async fn wake_worker<C: GenericClient>(c: &C, worker_id: &str) -> Result<bool, Error> {
    const OPERATION: &str = "wake_worker";
    let sql = "select jobforge.wake_worker(p_worker_id => $1)";
    let row = c
        .query_typed_one(sql, &[(&worker_id, Type::TEXT)])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// Looks for all sleepers, if nobody else does: makes due work ready and wakes them if there is work.
pub async fn look<C: GenericClient>(c: &C, worker_id: &str) -> Result<Look, Error> {
    const OPERATION: &str = "look";
    let sql = "select l.sentinel, l.found_work, l.next_due from jobforge.look(p_worker_id => $1) as l";
    let row = c
        .query_typed_one(sql, &[(&worker_id, Type::TEXT)])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Look { sentinel: columns.take()?, found_work: columns.take()?, next_due: columns.take()? })
}
