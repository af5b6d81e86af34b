//! `jobforge tick`: run at most N due jobs in this process, then end. For cron, tests and curiosity.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::cli::TickArgs;
use crate::commands::work::worker_config;
use crate::config::Config;
use crate::handlers::Handlers;
use crate::output::Output;
use crate::programs::Programs;
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: &TickArgs, output: Output) -> Result<ExitCode> {
    let target = Target::resolve(config, Purpose::Work)?;
    let programs = Programs::load(config.worker.commands_file.as_deref())?;
    let limit = usize::try_from(args.limit)?;
    let settings = worker_config(config, &target, args.queues.clone(), None)?;
    let handlers = Handlers::new(config, &config.egress.settings()?, programs)?;
    let stats = handlers.builder(settings).build()?.run_once(limit).await?;
    let json = json!({
        "claimed": stats.claimed, "completed": stats.completed, "failed": stats.failed,
        "snoozed": stats.snoozed, "released": stats.released,
    });
    output.answer(&json, || match stats.claimed {
        0 => "nothing was due".to_owned(),
        claimed => format!("ran {claimed} jobs: {} completed, {} failed", stats.completed, stats.failed),
    })?;
    Ok(ExitCode::SUCCESS)
}
