//! Samples depths, arrivals and ends, for rates and curves.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::sample_stats;
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

/// About so many live and finished jobs are read for a sample; one over more is estimated from them.
const COUNTED: i32 = 100_000;

pub(crate) async fn run(client: &Client, term: Term, config: &SchedulerConfig) -> Result<Duration, Error> {
    sample_stats(client, term.number, COUNTED).await?;
    Ok(config.stats_every)
}
