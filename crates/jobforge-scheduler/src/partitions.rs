//! Keeps the history's partitions 14 days ahead and drops those past their time.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::upkeep_partitions;
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

/// Each partition takes a lock on its parent until the call ends: few at a time.
const BATCH: i32 = 10;

/// A table in use refuses its lock for a moment, hardly for an hour.
const RETRY: Duration = Duration::from_secs(10);

pub(crate) async fn run(client: &Client, term: Term, config: &SchedulerConfig) -> Result<Duration, Error> {
    loop {
        let done = upkeep_partitions(client, term.number, BATCH).await?;
        if done.made > 0 || done.dropped > 0 {
            tracing::debug!(made = done.made, dropped = done.dropped, "partitions looked after");
        }
        if done.made < BATCH && done.dropped < BATCH {
            if done.refused > 0 {
                tracing::info!(refused = done.refused, "partitions in use; they get another try");
                return Ok(RETRY.min(config.partitions_every));
            }
            return Ok(config.partitions_every);
        }
    }
}
