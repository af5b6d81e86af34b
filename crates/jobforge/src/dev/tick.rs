//! Due jobs run by a request, as `jobforge tick` runs them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use jobforge_connectors::egress::EgressSettings;
use jobforge_server::{Tick, TickError, Ticked};
use jobforge_worker::{Stats, Worker, WorkerConfig, WorkerError};
use tokio::sync::watch;

use crate::config::Config;
use crate::handlers::Handlers;
use crate::programs::Programs;

/// What a worker for one tick is made of.
pub(crate) struct DueJobs {
    pub(crate) config: Config,
    pub(crate) egress: EgressSettings,
    pub(crate) worker: WorkerConfig,
    pub(crate) rounds: Rounds,
}

/// The ticks that run now. Each has a worker of its own, and whoever stops the server has them all stopped.
#[derive(Clone, Default)]
pub(crate) struct Rounds {
    under_way: Arc<watch::Sender<usize>>,
    /// How often they were told to stop.
    told: Arc<watch::Sender<usize>>,
}

/// One of them, until it is dropped.
struct Round<'a>(&'a Rounds);

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
        let stats = self.rounds.run(&handlers.builder(self.worker.clone()).build()?, limit).await?;
        Ok(Ticked {
            claimed: stats.claimed,
            completed: stats.completed,
            failed: stats.failed,
            snoozed: stats.snoozed,
            released: stats.released,
        })
    }
}

impl Rounds {
    /// Runs due jobs until there are none, or it is told to stop.
    pub(crate) async fn run(&self, worker: &Worker, limit: usize) -> Result<Stats, WorkerError> {
        let _round = Round::begin(self);
        let worker = worker.start_once(limit).await?;
        tokio::select! {
            () = worker.ended() => {}
            // Its first stop begins in any case: the second one counts on it.
            () = self.told(1) => tokio::select! {
                biased;
                () = worker.shutdown() => {}
                () = self.told(2) => worker.shutdown().await,
            }
        }
        worker.sound()?;
        Ok(worker.stats())
    }

    /// How many run.
    pub(crate) fn under_way(&self) -> usize {
        *self.under_way.borrow()
    }

    /// Stops them as their workers are: a second call does not wait for jobs and gives them back.
    pub(crate) async fn shutdown(&self) {
        self.told.send_modify(|times| *times += 1);
        // Its sender lives as long as this.
        let _ = self.under_way.subscribe().wait_for(|&rounds| rounds == 0).await;
    }

    async fn told(&self, times: usize) {
        let _ = self.told.subscribe().wait_for(|&told| told >= times).await;
    }
}

impl Round<'_> {
    fn begin(rounds: &Rounds) -> Round<'_> {
        rounds.under_way.send_modify(|under_way| *under_way += 1);
        Round(rounds)
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|under_way| *under_way -= 1);
    }
}
