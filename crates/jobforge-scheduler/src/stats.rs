//! Samples the queues' depths, for the page's curves.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::sample_stats;
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

/// The most live jobs one sample counts; a sample over more says that it is capped.
const COUNTED: i32 = 100_000;

pub(crate) async fn run(client: &Client, term: Term, config: &SchedulerConfig) -> Result<Duration, Error> {
    sample_stats(client, term.number, COUNTED).await?;
    Ok(config.stats_every)
}
