//! A worker: built, started, watched and stopped.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join;
use jobforge_core::{Error, JobType, preflight, rpc};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::config::WorkerConfig;
use crate::context::Context;
use crate::engine::{Engine, Inboxes, Phase};
use crate::handler::{Handler, Registry};
use crate::heartbeat;
use crate::journal::Ended;
use crate::link::{Link, within};
use crate::outcome::HandlerResult;
use crate::rehearsal::{open_reports, rehearse_claims};
use crate::runner::Claimer;
use crate::stats::Stats;
use crate::supervise::{Parts, supervise};

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
    only: Option<Vec<String>>,
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
    /// It is to run only a type for which it has no handler.
    #[error("the worker has no handler for {unknown}; it has some for {}", known.join(", "))]
    UnknownType {
        /// The type that was asked for.
        unknown: String,
        /// The types it can run.
        known: Vec<String>,
    },
    /// The database cannot be reached, or refuses this login.
    #[error("the worker cannot start on its database")]
    Database(#[source] Error),
    /// It ended before it had done, or told, everything.
    #[error(
        "a part of the worker ended that should not have, or it could not report everything: its log says more"
    )]
    Fallen,
    /// The operating system gives no thread.
    #[error("the heartbeat's thread cannot be started")]
    Thread(#[source] io::Error),
}

impl Worker {
    /// Starts to build a worker.
    pub fn builder(config: WorkerConfig) -> WorkerBuilder {
        WorkerBuilder { config, registry: Registry::default(), only: None }
    }

    /// Registers with the database and starts to work in the background.
    pub async fn start(&self) -> Result<WorkerHandle, WorkerError> {
        self.launch(None, Engine::new(self.config.clone(), self.registry.clone())).await
    }

    /// Starts to work in the background on at most this many due jobs, and ends by itself when they are done
    /// or nothing is due any more.
    pub async fn start_once(&self, limit: usize) -> Result<WorkerHandle, WorkerError> {
        self.launch(Some(limit), Engine::new(self.config.clone(), self.registry.clone())).await
    }

    /// Claims at most this many due jobs, runs them here, reports, and tells what it did.
    pub async fn run_once(&self, limit: usize) -> Result<Stats, WorkerError> {
        let handle = self.start_once(limit).await?;
        handle.ended().await;
        handle.sound()?;
        Ok(handle.stats())
    }

    /// Runs all that is due, and tells what became of each job.
    pub(crate) async fn run_kept(&self) -> Result<(Stats, Vec<Ended>), WorkerError> {
        let (mut engine, inboxes) = Engine::new(self.config.clone(), self.registry.clone());
        engine.journal.keep();
        let handle = self.launch(Some(usize::MAX), (engine, inboxes)).await?;
        handle.ended().await;
        handle.sound()?;
        Ok((handle.stats(), handle.engine.journal.take()))
    }

    async fn launch(
        &self,
        budget: Option<usize>,
        (engine, inboxes): (Engine, Inboxes),
    ) -> Result<WorkerHandle, WorkerError> {
        let engine = Arc::new(engine);
        let mut link = Link::listening(&engine);
        let client = link.client().await.map_err(WorkerError::Database)?;
        let fit = within(self.config.call_timeout, "preflight", preflight::check(&*client)).await;
        fit.map_err(WorkerError::Database)?;
        let mut claimer = Claimer::new(engine.clone(), link, budget);
        claimer.register().await.map_err(WorkerError::Database)?;
        claimer.recall().await.map_err(WorkerError::Database)?;
        let others = async {
            let reports = open_reports(&engine).await;
            // Where there is room for few connections, the second one for claims is the last.
            if reports.is_open() {
                claimer.begin_beside().await;
            }
            reports
        };
        let ((), reports) = join(rehearse_claims(&engine, &client), others).await;
        let asked = Instant::now();
        let call = rpc::definition_rules(&*client, &engine.registration.types);
        let rules = within(self.config.call_timeout, "definition_rules", call).await;
        engine.rules.learn(asked, rules.map_err(WorkerError::Database)?);

        let heart = heartbeat::start(engine.clone()).map_err(WorkerError::Thread)?;
        let (ending, ended) = watch::channel(false);
        let parts = Parts { engine: engine.clone(), claimer, inboxes, reports, heart };
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

    /// Adds the handler of a payload that names its job type itself.
    #[must_use]
    pub fn handle_job<J>(mut self, handler: impl Handler<J>) -> WorkerBuilder
    where
        J: JobType + DeserializeOwned + Send + 'static,
    {
        self.registry.add(J::TYPE.to_owned(), handler);
        self
    }

    /// Runs only these of the types it has handlers for.
    #[must_use]
    pub fn only<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> WorkerBuilder {
        self.only = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Checks the configuration.
    pub fn build(mut self) -> Result<Worker, WorkerError> {
        self.config.check().map_err(WorkerError::Config)?;
        if let Some(only) = self.only {
            let known = self.registry.types();
            if let Some(unknown) = only.iter().find(|name| !known.contains(name)) {
                return Err(WorkerError::UnknownType { unknown: unknown.clone(), known });
            }
            self.registry.keep(&only);
        }
        if self.registry.types().is_empty() {
            return Err(WorkerError::NoHandlers);
        }
        Ok(Worker { config: self.config, registry: self.registry })
    }
}

/// A job whose handler runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The job.
    pub job_id: Uuid,
    /// Whose job it is.
    pub tenant_id: Uuid,
    /// Its type.
    pub job_type: String,
    /// For how long.
    pub elapsed: Duration,
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

    /// An error where something went wrong with the worker itself: a part of it ended that should not have, or it could not
    /// report everything before its end. Such jobs run again once their lease ends.
    pub fn sound(&self) -> Result<(), WorkerError> {
        match self.engine.fallen.load(Ordering::Acquire) {
            true => Err(WorkerError::Fallen),
            false => Ok(()),
        }
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

    /// Whether hints of the broker arrive; always false without one.
    pub fn broker_connected(&self) -> bool {
        self.stats().broker_connected
    }

    /// The jobs whose handlers run now, the longest first.
    pub fn running(&self) -> Vec<Running> {
        let mut running: Vec<Running> = self
            .engine
            .holdings
            .jobs()
            .iter()
            .filter_map(|job| {
                let elapsed = job.runs_for()?;
                let job_ref = job.job_ref();
                let job_type = job.claimed.job_type.clone();
                Some(Running { job_id: job_ref.id, tenant_id: job_ref.tenant_id, job_type, elapsed })
            })
            .collect();
        running.sort_by_key(|job| std::cmp::Reverse(job.elapsed));
        running
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
