//! Takes the jobs of lost workers back. Wakes when the next lease runs out, not on a period: a lost job
//! waits for its lease, never for the reaper.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::reap;
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

/// Leases per call: each may hold thousands of jobs, all in one transaction.
const BATCH: i32 = 20;

pub(crate) async fn run(client: &Client, term: Term, config: &SchedulerConfig) -> Result<Duration, Error> {
    let reaped = reap(client, term.number, BATCH).await?;
    // Of a lease with jobs that somebody holds the rest comes back before it is over.
    if reaped.leases > 0 || reaped.deaths > 0 || reaped.free > 0 {
        tracing::warn!(
            leases = reaped.leases,
            deaths = reaped.deaths,
            given_back = reaped.free,
            "leases ran out; their jobs were taken back"
        );
    }
    let (soonest, latest) = (config.reap_at_most_every, config.reap_at_least_every);
    Ok(match reaped.next_expiry {
        Some(expiry) => term.clock.until(expiry).clamp(soonest, latest),
        None => latest,
    })
}
