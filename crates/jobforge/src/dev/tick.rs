//! Due jobs run by a request, as `jobforge tick` runs them.

use std::fmt;
use std::pin::Pin;

use jobforge_connectors::egress::EgressSettings;
use jobforge_server::{Tick, TickError, Ticked};
use jobforge_worker::WorkerConfig;

use crate::config::Config;
use crate::handlers::Handlers;
use crate::programs::Programs;

/// What a worker for one tick is made of.
pub(crate) struct DueJobs {
    pub(crate) config: Config,
    pub(crate) egress: EgressSettings,
    pub(crate) worker: WorkerConfig,
}

impl fmt::Debug for DueJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DueJobs")
    }
}

impl Tick for DueJobs {
    fn run_due(&self, limit: usize) -> Pin<Box<dyn Future<Output = Result<Ticked, TickError>> + Send + '_>> {
        Box::pin(async move { Ok(self.run(limit).await?) })
    }
}

impl DueJobs {
    async fn run(&self, limit: usize) -> anyhow::Result<Ticked> {
        let programs =
            Programs::load(self.config.worker.commands_file.as_deref().or(Programs::found_here()))?;
        let handlers = Handlers::new(&self.config, &self.egress, programs)?;
        let stats = handlers.builder(self.worker.clone()).build()?.run_once(limit).await?;
        Ok(Ticked {
            claimed: stats.claimed,
            completed: stats.completed,
            failed: stats.failed,
            snoozed: stats.snoozed,
            released: stats.released,
        })
    }
}
