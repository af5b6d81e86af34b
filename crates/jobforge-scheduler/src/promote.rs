//! Makes due work ready and wakes the sleepers. Claims and one sleeping worker do it too; this is the floor
//! for a database whose workers are all away.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::promote_due;
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

const BATCH: i32 = 1000;

pub(crate) async fn run(client: &Client, term: Term, config: &SchedulerConfig) -> Result<Duration, Error> {
    let promoted = promote_due(client, term.number, BATCH).await?;
    if promoted > 0 {
        tracing::debug!(jobs = promoted, "due work made ready");
    }
    // A full batch says that there may be more.
    Ok(if promoted < BATCH { config.promote_every } else { Duration::ZERO })
}
