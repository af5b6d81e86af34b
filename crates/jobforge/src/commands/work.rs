//! `jobforge work`: a worker, until it is told to stop.

use std::process::ExitCode;

use anyhow::Result;
use jobforge_worker::{WorkerConfig, WorkerHandle};

use crate::cli::WorkArgs;
use crate::config::Config;
use crate::handlers;
use crate::output::Output;
use crate::programs::Programs;
use crate::signals::Signals;
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: WorkArgs, output: Output) -> Result<ExitCode> {
    let programs = Programs::load(args.commands.as_deref().or(config.worker.commands_file.as_deref()))?;
    let mut signals = Signals::listen()?;
    let settings = worker_config(config, &Target::resolve(config, Purpose::Work)?, args.queues, args.slots)?;
    tracing::info!(queues = settings.queues.join(","), slots = settings.slots, "the worker starts");
    let worker = handlers::worker(settings, &config.egress.settings()?, &programs)?.start().await?;
    tracing::info!(worker_id = worker.worker_id(), "the worker is ready");
    signals.next().await;
    let code = stop(&worker, &mut signals).await;
    let stats = worker.stats();
    let json = serde_json::json!({
        "claimed": stats.claimed, "completed": stats.completed, "failed": stats.failed,
        "snoozed": stats.snoozed, "released": stats.released, "lost": stats.lost,
    });
    output.answer(&json, || {
        format!("completed {}, failed {}, given back {}", stats.completed, stats.failed, stats.released)
    })?;
    Ok(code)
}

/// Lets running jobs end within the grace; a second signal interrupts them and gives them back.
pub(crate) async fn stop(worker: &WorkerHandle, signals: &mut Signals) -> ExitCode {
    tracing::info!(worker_id = worker.worker_id(), running = worker.stats().running, "the worker stops");
    if signals.unless_repeated(worker.shutdown()).await.is_some() {
        return ExitCode::SUCCESS;
    }
    // The second call does not wait for handlers; a third signal does not even wait for that.
    let _ = signals.unless_repeated(worker.shutdown()).await;
    ExitCode::from(130)
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
