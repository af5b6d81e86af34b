//! `jobforge schedule`: a scheduler, until it is told to stop.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use jobforge_scheduler::{Scheduler, SchedulerConfig};
use uuid::Uuid;

use crate::config::Config;
use crate::signals::Signals;
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let target = Target::resolve(config, Purpose::Operate)?;
    let artifacts = config.artifacts.open(target.artifacts_dir())?.map(|store| store as _);
    let settings = SchedulerConfig { artifacts, ..scheduler_config(config, &target.url) };
    let scheduler = Scheduler::start(settings).await?;
    tracing::info!("the scheduler is ready");
    signals.next().await;
    tracing::info!("the scheduler stops");
    match signals.unless_repeated(scheduler.shutdown()).await {
        Some(()) => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::from(130)),
    }
}

/// The scheduler's settings for a database, under a name that no other process has.
pub(crate) fn scheduler_config(config: &Config, url: &str) -> SchedulerConfig {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let host: String = host.unwrap_or_else(|| "unknown-host".to_owned()).chars().take(100).collect();
    SchedulerConfig {
        database_url: url.to_owned(),
        holder: format!("{host}:{}:{}", std::process::id(), Uuid::new_v4()),
        lead_every: Duration::from_millis(config.scheduler.lead_every_ms),
        lead_seconds: config.scheduler.lead_lease_seconds,
        ..SchedulerConfig::default()
    }
}
