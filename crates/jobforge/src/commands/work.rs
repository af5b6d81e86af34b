//! `jobforge work`: a worker, until it is told to stop or, with `--once`, until nothing is due.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jobforge_core::connect::Backoff;
use jobforge_worker::{Stats, Worker, WorkerBuilder, WorkerConfig, WorkerError, WorkerHandle};

use crate::cli::WorkArgs;
use crate::config::Config;
use crate::failure::Usage;
use crate::handlers::Handlers;
use crate::output::Output;
use crate::programs::Programs;
use crate::signals::Signals;
use crate::target::{Purpose, Target};

/// How often a worker that stops tells what it waits for.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How often a worker that waits for its database says so.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// The longest pause between two looks for it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn run(config: &Config, args: WorkArgs, output: Output) -> Result<ExitCode> {
    let programs = Programs::load(args.commands.as_deref().or(config.worker.commands_file.as_deref()))?;
    let mut signals = Signals::listen()?;
    let target = Target::resolve(config, Purpose::Work)?;
    let settings = worker_config(config, &target, args.queues, args.concurrency)?;
    // Whoever only runs what is due waits for no hints.
    let broker = if args.once { None } else { config.broker.named()? };
    let settings = WorkerConfig { broker, ..settings };
    let (queues, slots) = (settings.queues.join(","), settings.slots);
    let handlers = Handlers::new(config, &config.egress.settings()?, programs)?;
    let worker = build(handlers.builder(settings), args.types)?;
    // Not before they are known to be queues.
    tracing::info!(queues, slots, "the worker starts");
    let started = match args.once {
        // Whoever asks for one round wants to know that there was none.
        true => signals.unless_repeated(worker.start_once(usize::MAX)).await.transpose()?,
        false => start(&worker, &mut signals).await?,
    };
    let Some(worker) = started else {
        tell(Stats::default(), output)?;
        return Ok(if args.once { End::Interrupted.code() } else { ExitCode::SUCCESS });
    };
    tracing::info!(worker_id = worker.worker_id(), "the worker is ready");
    let end = see_out(&worker, &mut signals).await;
    tell(worker.stats(), output)?;
    worker.sound()?;
    if args.once { Ok(end.code()) } else { end.asked_for() }
}

/// How a worker came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself.
    Itself,
    /// It was told to stop, and did.
    Stopped,
    /// It was told again, and did not wait for its jobs; or it is a round that could not begin.
    Interrupted,
}

impl End {
    pub(crate) fn code(self) -> ExitCode {
        match self {
            End::Itself | End::Stopped => ExitCode::SUCCESS,
            End::Interrupted => ExitCode::from(130),
        }
    }

    /// Of a worker that goes on until it is told to stop.
    pub(crate) fn asked_for(self) -> Result<ExitCode> {
        if self == End::Itself {
            bail!("the worker ended by itself, though nobody told it to: its log may say why");
        }
        Ok(self.code())
    }
}

/// Until the worker has ended, by itself or because a signal told it to.
pub(crate) async fn see_out(worker: &WorkerHandle, signals: &mut Signals) -> End {
    tokio::select! {
        () = worker.ended() => End::Itself,
        () = signals.next() => stop(worker, signals).await,
    }
}

/// Starts the worker as soon as its database answers; `None` if a signal came before. What Postgres itself refuses, a login
/// or a schema, is no reason to wait.
async fn start(worker: &Worker, signals: &mut Signals) -> Result<Option<WorkerHandle>> {
    let mut backoff = Backoff::new();
    let mut said: Option<Instant> = None;
    loop {
        let Some(started) = signals.unless_repeated(worker.start()).await else { return Ok(None) };
        let error = match started {
            Err(WorkerError::Database(error)) if error.is_transient() => error,
            started => return Ok(Some(started?)),
        };
        if said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
            said = Some(Instant::now());
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the database does not answer: the worker waits for it");
        }
        let pause = tokio::time::sleep(backoff.next_delay().min(LOOK_EVERY));
        if signals.unless_repeated(pause).await.is_none() {
            return Ok(None);
        }
    }
}

/// What the worker did.
fn tell(stats: Stats, output: Output) -> Result<()> {
    let json = serde_json::json!({
        "claimed": stats.claimed, "completed": stats.completed, "failed": stats.failed,
        "snoozed": stats.snoozed, "released": stats.released, "lost": stats.lost,
    });
    output.answer(&json, || {
        format!("completed {}, failed {}, given back {}", stats.completed, stats.failed, stats.released)
    })
}

/// What this program can run, or only some of it. Settings that cannot work are a wrong use, wherever they stand.
pub(crate) fn build(builder: WorkerBuilder, types: Option<Vec<String>>) -> Result<Worker> {
    let builder = match types {
        Some(types) => builder.only(types),
        None => builder,
    };
    builder.build().map_err(|error| match error {
        unknown @ WorkerError::UnknownType { .. } => Usage::new(format!("--types: {unknown}")).into(),
        unusable @ WorkerError::Config(_) => Usage::new(unusable.to_string()).into(),
        other => other.into(),
    })
}

/// Lets running jobs end within the grace; a second signal interrupts them and gives them back.
async fn stop(worker: &WorkerHandle, signals: &mut Signals) -> End {
    tracing::info!(worker_id = worker.worker_id(), running = worker.stats().running, "the worker stops");
    let orderly = tokio::select! {
        done = signals.unless_repeated(worker.shutdown()) => done.is_some(),
        () = tell_what_runs(worker) => true,
    };
    if orderly {
        return End::Stopped;
    }
    // The second call does not wait for handlers; a third signal does not even wait for that.
    let _ = signals.unless_repeated(worker.shutdown()).await;
    End::Interrupted
}

/// For ever: how many jobs still run, and which of them for how long.
async fn tell_what_runs(worker: &WorkerHandle) {
    loop {
        tokio::time::sleep(TELL_EVERY).await;
        let running = worker.running();
        let Some(longest) = running.first() else { continue };
        let duration_ms = u64::try_from(longest.elapsed.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            worker_id = worker.worker_id(), job_id = %longest.job_id, job_type = longest.job_type,
            tenant_id = %longest.tenant_id, duration_ms, running = running.len(),
            "waiting for running jobs, of which this one runs longest"
        );
    }
}

/// The worker's settings for a database, with what the command line overrides.
pub(crate) fn worker_config(
    config: &Config,
    target: &Target,
    queues: Option<Vec<String>>,
    slots: Option<usize>,
) -> Result<WorkerConfig> {
    let artifacts = config.artifacts.open(target.artifacts_dir())?;
    Ok(WorkerConfig {
        database_url: target.url.clone(),
        direct_url: target.direct_url.clone(),
        queues: queues.unwrap_or_else(|| config.worker.queues.clone()),
        slots: slots.unwrap_or(config.worker.slots),
        lease_seconds: config.worker.lease_seconds,
        grace_seconds: config.worker.grace_seconds,
        artifacts: artifacts.map(|store| store as _),
        ..WorkerConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use jobforge_testkit::{NOOP, PASSWORD, TestDb, WORKER};
    use jobforge_worker::{Context, Outcome};
    use serde::de::IgnoredAny;

    use super::*;

    /// Nothing that a worker meets should end it; one that has nothing more to do does.
    #[tokio::test]
    async fn a_worker_that_nobody_told_to_end_fails_unless_it_was_to_run_once() {
        let db = TestDb::new().await;
        let database_url = db.url_as(WORKER, Some(PASSWORD));
        let settings = WorkerConfig { database_url, ..WorkerConfig::default() };
        let noop = async |_: Context, _: IgnoredAny| Ok(Outcome::done());
        let worker = Worker::builder(settings).handle(NOOP, noop).build().unwrap();
        let worker = worker.start_once(1).await.unwrap();
        let end = see_out(&worker, &mut Signals::listen().unwrap()).await;
        assert_eq!((end, end.code()), (End::Itself, ExitCode::SUCCESS));
        assert!(end.asked_for().unwrap_err().to_string().contains("ended by itself"));
        assert_eq!(End::Stopped.asked_for().unwrap(), ExitCode::SUCCESS);
        assert_eq!(End::Interrupted.asked_for().unwrap(), ExitCode::from(130));
    }
}
