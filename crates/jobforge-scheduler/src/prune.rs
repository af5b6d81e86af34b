//! Deletes what is past its time, in bounded steps: dead letters, keys, what no partition takes along.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::{PrunePosition, prune};
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

const BATCH: i32 = 1000;

/// Between the steps of a round, so that the other duties have their turn.
const BREATH: Duration = Duration::from_millis(50);

/// How many steps a round has at most; what is left over waits for the next one, which goes on there.
const STEPS: u32 = 1000;

/// How far the pruning came. A hint: whoever loses it starts anew and finds what is left.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    position: PrunePosition,
    steps: u32,
}

pub(crate) async fn run(
    client: &Client,
    term: Term,
    config: &SchedulerConfig,
    progress: &mut Progress,
) -> Result<Duration, Error> {
    let pruned = prune(client, term.number, BATCH, &progress.position).await?;
    let counts = [
        pruned.keys,
        pruned.workers,
        pruned.sleepers,
        pruned.stats,
        pruned.history,
        pruned.dead_letters,
        pruned.orphans,
    ];
    if counts.iter().any(|count| *count > 0) {
        tracing::debug!(
            keys = pruned.keys,
            stats = pruned.stats,
            history = pruned.history,
            dead_letters = pruned.dead_letters,
            "pruned"
        );
    }
    if pruned.orphans > 0 {
        tracing::warn!(rows = pruned.orphans, "deleted attempts, log lines or progress without a job");
    }
    if pruned.stranded > 0 {
        tracing::warn!(jobs = pruned.stranded, "took back jobs that ran on a lease which is gone");
    }
    progress.position = pruned.after;
    progress.steps += 1;
    if pruned.more && progress.steps < STEPS {
        return Ok(BREATH);
    }
    progress.steps = 0;
    Ok(config.prune_every)
}
