//! `jobforge dev`: everything in one process on a private Postgres, until it is told to stop.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use jobforge_connectors::egress::{EgressSettings, parse_nets};
use jobforge_core::Artifacts;
use jobforge_scheduler::{Scheduler, SchedulerConfig, SchedulerHandle};
use jobforge_server::ServerHandle;
use jobforge_worker::{WorkerConfig, WorkerHandle};

use crate::cli::DevArgs;
use crate::commands::schedule::scheduler_config;
use crate::config::Config;
use crate::demo::TENANT;
use crate::dev::api::{self, Given};
use crate::dev::binaries;
use crate::dev::home::{DevFile, DevHome};
use crate::dev::logins::Logins;
use crate::dev::roles::{self, Urls};
use crate::dev::server::{Access, Ground};
use crate::dev::summary::Summary;
use crate::dev::tick::DueJobs;
use crate::dev::welcome::{LOOPBACK, Welcome};
use crate::dev::{keys, mix};
use crate::handlers::Handlers;
use crate::output::{Output, say};
use crate::programs::Programs;
use crate::signals::Signals;
use crate::tokens::token_config;

/// How long the first round of upkeep may keep the worker waiting.
const SETTLE: Duration = Duration::from_secs(10);

pub(crate) async fn run(config: &Config, args: DevArgs, output: Output) -> Result<ExitCode> {
    args.listen.map(api::check_free).transpose()?;
    let programs = Programs::load(config.worker.commands_file.as_deref().or(Programs::found_here()))?;
    let egress = egress_settings(config)?;
    let tokens = token_config(&config.server.tokens, || Ok(egress.clone()))?;
    let config = Config { pg_bin: args.pg_bin.or_else(|| config.pg_bin.clone()), ..config.clone() };
    binaries::offer(&config, args.yes)?;
    // From here on a signal waits until there is something to stop.
    let mut signals = Signals::listen()?;
    let ground = Ground::prepare(&config, args.data_dir).await?;
    let (urls, report) = roles::prepare(&ground.server.access, &logins(&ground.home)?).await?;
    let store: Option<Arc<dyn Artifacts>> =
        config.artifacts.open(Some(&ground.home.artifacts_dir()))?.map(|store| store as _);
    let settings = scheduler_settings(&config, &urls, &ground);
    let scheduler = Scheduler::start(SchedulerConfig { artifacts: store.clone(), ..settings }).await?;
    // Completions before their partition exists would go to the default one, and keep it from being made.
    let _ = tokio::time::timeout(SETTLE, scheduler.settled()).await;
    programs.define(&urls.operator).await?;
    let settings = WorkerConfig { artifacts: store, ..worker_settings(&config, &urls) };
    let handlers = Handlers::new(&config, &egress, programs)?;
    let due = DueJobs { config: config.clone(), egress, worker: settings.clone() };
    let worker = handlers.builder(settings).build()?.start().await?;
    let keys = keys::prepare(&ground.home, &urls.operator).await?;
    let server = api::start(&config, &urls, Given { due, tokens }, args.listen).await?;
    let url = format!("http://{}", server.address());
    ground.home.announce(&DevFile {
        url: Some(url.clone()),
        database_url: urls.app.clone(),
        tenant_id: TENANT,
        keys,
    })?;
    Welcome { ground: &ground, urls: &urls, report: &report, url: &url, no_demo: args.no_demo }
        .tell(output)?;

    watch(&urls, &worker, args.no_demo, &mut signals).await;

    ground.home.withdraw();
    let orderly = signals.unless_repeated(stop(server, &worker, scheduler)).await.is_some();
    ground.server.stop().await?;
    say(&format!("stopped; the data stays in {}", ground.home.dir().display()));
    Ok(if orderly { ExitCode::SUCCESS } else { ExitCode::from(130) })
}

/// The logins' passwords: those of an earlier start, or new ones.
fn logins(home: &DevHome) -> Result<Logins> {
    if let Some(logins) = home.logins()? {
        return Ok(logins);
    }
    let logins = Logins::generate();
    home.keep_logins(&logins)?;
    Ok(logins)
}

/// On a private Postgres the directory's lock lets one leader live at a time: under a fixed name it goes on
/// where one that was killed left off, without waiting for its lease to end.
fn scheduler_settings(config: &Config, urls: &Urls, ground: &Ground) -> SchedulerConfig {
    let settings = scheduler_config(config, &urls.operator);
    match ground.server.access {
        Access::Superuser(_) => SchedulerConfig { holder: "jobforge dev".to_owned(), ..settings },
        Access::Given(_) => settings,
    }
}

fn worker_settings(config: &Config, urls: &Urls) -> WorkerConfig {
    WorkerConfig {
        database_url: urls.worker.clone(),
        queues: config.worker.queues.clone(),
        slots: config.worker.slots,
        lease_seconds: config.worker.lease_seconds,
        grace_seconds: config.worker.grace_seconds,
        ..WorkerConfig::default()
    }
}

/// What is tried out is tried out on this machine: its own addresses are open to the connectors.
fn egress_settings(config: &Config) -> Result<EgressSettings> {
    let mut settings = config.egress.settings()?;
    let own = parse_nets(&LOOPBACK).map_err(|error| anyhow!(error))?;
    settings.policy.allow.extend(own);
    Ok(settings)
}

/// Keeps the line up to date and the jobs coming, until a signal.
async fn watch(urls: &Urls, worker: &WorkerHandle, no_demo: bool, signals: &mut Signals) {
    let summary = Summary::new(urls.app.clone());
    let mix = async {
        if no_demo {
            std::future::pending::<()>().await;
        } else {
            mix::run(urls.app.clone(), summary.counts()).await;
        }
    };
    tokio::select! {
        () = summary.run(worker) => {}
        () = mix => {}
        () = signals.next() => {}
    }
}

async fn stop(server: ServerHandle, worker: &WorkerHandle, scheduler: SchedulerHandle) {
    let running = worker.stats().running;
    if running > 0 {
        say(&format!("stopping: {running} jobs may end first (Ctrl-C again: at once)"));
    }
    tokio::join!(server.shutdown(), worker.shutdown());
    scheduler.shutdown().await;
}
