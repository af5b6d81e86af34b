//! `jobforge schedule`: a scheduler, until it is told to stop.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use jobforge_scheduler::{Scheduler, SchedulerConfig, SchedulerHandle};
use uuid::Uuid;

use crate::config::Config;
use crate::signals::Signals;
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let target = Target::resolve(config, Purpose::Operate)?;
    let artifacts = config.artifacts.open(target.artifacts_dir())?.map(|store| store as _);
    let settings = SchedulerConfig { artifacts, ..scheduler_config(config, &target.url) };
    // A database that answers late or not at all is no reason to ignore a signal.
    let Some(scheduler) = signals.unless_repeated(Scheduler::start(settings)).await.transpose()? else {
        return Ok(ExitCode::SUCCESS);
    };
    tracing::info!("the scheduler is ready");
    see_out(scheduler, &mut signals).await
}

/// Until a signal tells it to stop; an error if it ends by itself.
async fn see_out(scheduler: SchedulerHandle, signals: &mut Signals) -> Result<ExitCode> {
    tokio::select! {
        () = scheduler.ended() => return Err(why_ended(&scheduler)),
        () = signals.next() => {}
    }
    tracing::info!("the scheduler stops");
    match signals.unless_repeated(scheduler.shutdown()).await {
        Some(()) => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::from(130)),
    }
}

/// What a scheduler came to that nobody told to end.
pub(crate) fn why_ended(scheduler: &SchedulerHandle) -> anyhow::Error {
    match scheduler.take_refusal() {
        Some(refusal) => refusal.into(),
        None => anyhow!("the scheduler ended by itself, though nobody told it to: its log may say why"),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jobforge_scheduler::Faults;
    use jobforge_testkit::{OPERATOR, PASSWORD, TestDb};

    use super::*;

    #[tokio::test]
    async fn a_scheduler_that_nobody_told_to_end_fails() {
        let db = TestDb::new().await;
        let hook = |point| assert_ne!(point, "duty", "made to panic");
        let database_url = db.url_as(OPERATOR, Some(PASSWORD));
        let faults = Faults::at_points(Arc::new(hook));
        let settings = SchedulerConfig {
            database_url,
            holder: "broken".to_owned(),
            faults,
            ..SchedulerConfig::default()
        };
        let scheduler = Scheduler::start(settings).await.unwrap();
        let ended = see_out(scheduler, &mut Signals::listen().unwrap()).await;
        assert!(ended.unwrap_err().to_string().contains("the scheduler ended by itself"));
    }
}
