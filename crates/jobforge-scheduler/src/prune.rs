//! Deletes what is past its time, in bounded batches.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::prune;
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

const BATCH: i32 = 1000;

/// Between full batches, so that the other duties have their turn.
const BREATH: Duration = Duration::from_millis(50);

pub(crate) async fn run(client: &Client, term: Term, config: &SchedulerConfig) -> Result<Duration, Error> {
    let pruned = prune(client, term.number, BATCH).await?;
    let counts = [pruned.keys, pruned.workers, pruned.sleepers, pruned.stats, pruned.history];
    if counts.iter().any(|count| *count > 0) {
        tracing::debug!(keys = pruned.keys, stats = pruned.stats, history = pruned.history, "pruned");
    }
    Ok(if counts.contains(&BATCH) { BREATH } else { config.prune_every })
}
