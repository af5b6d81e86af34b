//! `jobforge tick`: run at most N due jobs in this process, then end. For cron, tests and curiosity.

use std::process::ExitCode;

use anyhow::Result;
use jobforge_worker::Stats;
use serde_json::json;

use crate::cli::TickArgs;
use crate::commands::work::{End, build, see_out, worker_config};
use crate::config::Config;
use crate::handlers::Handlers;
use crate::output::Output;
use crate::programs::Programs;
use crate::signals::Signals;
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: &TickArgs, output: Output) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let target = Target::resolve(config, Purpose::Work)?;
    let programs = Programs::load(config.worker.commands_file.as_deref())?;
    let limit = usize::try_from(args.limit)?;
    let settings = worker_config(config, &target, args.queues.clone(), None)?;
    let handlers = Handlers::new(config, &config.egress.settings()?, programs)?;
    let worker = build(handlers.builder(settings), None)?;
    let (end, stats, sound) = match signals.unless_repeated(worker.start_once(limit)).await.transpose()? {
        Some(worker) => (see_out(&worker, &mut signals).await, worker.stats(), worker.sound()),
        // It was told to stop before it could look.
        None => (End::Interrupted, Stats::default(), Ok(())),
    };
    let json = json!({
        "claimed": stats.claimed, "completed": stats.completed, "failed": stats.failed,
        "snoozed": stats.snoozed, "released": stats.released,
    });
    output.answer(&json, || match stats.claimed {
        0 if end == End::Itself => "nothing was due".to_owned(),
        0 => "stopped before anything ran".to_owned(),
        claimed => format!("ran {claimed} jobs: {} completed, {} failed", stats.completed, stats.failed),
    })?;
    sound?;
    Ok(end.code())
}
