//! A worker: built, started, watched and stopped.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobforge_core::{Error, preflight, rpc};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::config::WorkerConfig;
use crate::context::Context;
use crate::engine::{Engine, Phase};
use crate::handler::Registry;
use crate::heartbeat;
use crate::link::{Link, within};
use crate::outcome::HandlerResult;
use crate::runner::Claimer;
use crate::stats::Stats;
use crate::supervise::{Heart, Parts, supervise};

/// Handlers and how to run them. One may be started any number of times.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    registry: Registry,
}

/// Gathers handlers.
#[derive(Debug)]
pub struct WorkerBuilder {
    config: WorkerConfig,
    registry: Registry,
}

/// Why a worker cannot be built or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// A setting makes no sense.
    #[error("the worker's configuration is not usable: {0}")]
    Config(String),
    /// There is nothing it could run.
    #[error("the worker has no handlers")]
    NoHandlers,
    /// The database cannot be reached, or refuses this login.
    #[error("the worker cannot start on its database")]
    Database(#[source] Error),
    /// The operating system gives no thread.
    #[error("the heartbeat's thread cannot be started")]
    Thread(#[source] io::Error),
}

impl Worker {
    /// Starts to build a worker.
    pub fn builder(config: WorkerConfig) -> WorkerBuilder {
        WorkerBuilder { config, registry: Registry::default() }
    }

    /// Registers with the database and starts to work in the background.
    pub async fn start(&self) -> Result<WorkerHandle, WorkerError> {
        self.launch(None).await
    }

    /// Claims at most this many due jobs, runs them here, reports, and tells what it did.
    pub async fn run_once(&self, limit: usize) -> Result<Stats, WorkerError> {
        let handle = self.launch(Some(limit)).await?;
        handle.ended().await;
        Ok(handle.stats())
    }

    async fn launch(&self, budget: Option<usize>) -> Result<WorkerHandle, WorkerError> {
        let (engine, inboxes) = Engine::new(self.config.clone(), self.registry.clone());
        let mut link = Link::new(&self.config);
        let client = link.client().await.map_err(WorkerError::Database)?;
        preflight::check(&*client).await.map_err(WorkerError::Database)?;
        let mut claimer = Claimer::new(engine.clone(), link, budget);
        claimer.register().await.map_err(WorkerError::Database)?;
        let asked = Instant::now();
        let call = rpc::definition_rules(&*client, &engine.registration.types);
        let rules = within(self.config.call_timeout, "definition_rules", call).await;
        engine.rules.learn(asked, rules.map_err(WorkerError::Database)?);

        let over = CancellationToken::new();
        let thread = heartbeat::start(engine.clone(), over.clone()).map_err(WorkerError::Thread)?;
        let heart = Heart { over, thread: Some(thread) };
        let (ending, ended) = watch::channel(false);
        let parts = Parts { engine: engine.clone(), claimer, inboxes, heart };
        let supervisor = tokio::spawn(async move {
            supervise(parts).await;
            ending.send_replace(true);
        });
        Ok(WorkerHandle { engine, ended, supervisor: supervisor.abort_handle() })
    }
}

impl WorkerBuilder {
    /// Adds the handler of a job type. It gets its arguments decoded; a payload that does not fit fails the
    /// job for good. An error is a failure worth a retry unless it says otherwise.
    #[must_use]
    pub fn handle<A, F, W>(mut self, job_type: impl Into<String>, handler: F) -> WorkerBuilder
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(Context, A) -> W + Send + Sync + 'static,
        W: Future<Output = HandlerResult> + Send + 'static,
    {
        self.registry.add(job_type.into(), handler);
        self
    }

    /// Checks the configuration.
    pub fn build(self) -> Result<Worker, WorkerError> {
        self.config.check().map_err(WorkerError::Config)?;
        if self.registry.types().is_empty() {
            return Err(WorkerError::NoHandlers);
        }
        Ok(Worker { config: self.config, registry: self.registry })
    }
}

/// A worker that runs. Dropping it interrupts what it does and gives the jobs back.
#[derive(Debug)]
pub struct WorkerHandle {
    engine: Arc<Engine>,
    ended: watch::Receiver<bool>,
    supervisor: AbortHandle,
}

impl WorkerHandle {
    /// Stops: claims nothing more, gives back what has not started, lets handlers end within the grace, then
    /// interrupts them and gives their jobs back. Called again, it does not wait any longer for handlers.
    pub async fn shutdown(&self) {
        self.engine.phase.send_modify(|phase| {
            *phase = if *phase == Phase::Running { Phase::Draining } else { Phase::Now };
        });
        self.ended().await;
    }

    /// Returns once the worker has ended.
    pub async fn ended(&self) {
        // An error means that it ended without saying so.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// What it did and does.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Its id in the registry: `host:pid:boot-uuid`.
    pub fn worker_id(&self) -> &str {
        self.engine.worker_id()
    }

    /// How long ago the claim loop last went round. A worker that is alive never lets this grow past a few
    /// seconds, busy or idle, with the database or without.
    pub fn last_round(&self) -> Duration {
        self.engine.last_round().elapsed()
    }

    /// Whether notifications arrive; without them the worker looks for work each second.
    pub fn hears(&self) -> bool {
        self.engine.ear.hears()
    }

    /// Ends at once and tells nobody, as a crash would.
    #[doc(hidden)]
    pub fn vanish(&self) {
        self.supervisor.abort();
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.engine.phase.send_replace(Phase::Now);
    }
}
