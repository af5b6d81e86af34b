//! Prune: delete what has outlived its use.

use serde_json::value::RawValue;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::wire::{Columns, Json};
use crate::error::Error;

/// Where a call stopped: handed to the next one, it goes on there. The default one starts anew.
#[derive(Clone, Debug, Default)]
pub struct PrunePosition(Option<Box<RawValue>>);

/// What was deleted.
#[derive(Clone, Debug)]
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
    /// Dead letters, with their attempts, logs and progress.
    pub dead_letters: i32,
    /// Attempts, log lines and progress without a job.
    pub orphans: i32,
    /// Jobs that ran on a lease which was gone: they were given back, and not deleted.
    pub stranded: i32,
    /// Whether another call from `after` on may find more.
    pub more: bool,
    /// Where to go on.
    pub after: PrunePosition,
}

/// Looks at up to `limit` of each kind, from a position on, and deletes those past their time.
pub async fn prune<C: GenericClient>(
    c: &C,
    term: i64,
    limit: i32,
    after: &PrunePosition,
) -> Result<Pruned, Error> {
    const OPERATION: &str = "prune";
    let after = after.0.as_ref().map(Json::from);
    let row = c
        .query_typed_one(
            "select p.keys, p.workers, p.sleepers, p.stats, p.history, p.dead_letters, p.orphans, p.more, p.after
             from jobforge.prune(p_term => $1, p_limit => $2, p_after => $3) as p",
            &[(&term, Type::INT8), (&limit, Type::INT4), (&after, Type::JSONB)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    let mut pruned = Pruned {
        keys: columns.take()?,
        workers: columns.take()?,
        sleepers: columns.take()?,
        stats: columns.take()?,
        history: columns.take()?,
        dead_letters: columns.take()?,
        orphans: columns.take()?,
        stranded: 0,
        more: columns.take()?,
        after: PrunePosition(Some(columns.json()?)),
    };
    // Told beside the position, which is nobody's to read but for this.
    let told = pruned.after.0.as_ref().and_then(|after| serde_json::from_str::<Told>(after.get()).ok());
    pruned.stranded = told.map_or(0, |told| told.stranded);
    Ok(pruned)
}

#[derive(serde::Deserialize)]
struct Told {
    #[serde(default)]
    stranded: i32,
}
