//! `jobforge dev`: everything in one process on a private Postgres, until it is told to stop.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use jobforge_connectors::egress::{EgressSettings, parse_nets};
use jobforge_core::Artifacts;
use jobforge_core::migrate::Report;
use jobforge_scheduler::{Scheduler, SchedulerConfig, SchedulerHandle};
use jobforge_worker::{WorkerConfig, WorkerHandle};
use serde_json::json;

use crate::cli::DevArgs;
use crate::commands::schedule::scheduler_config;
use crate::config::{Config, redact};
use crate::demo::TENANT;
use crate::dev::home::{DevFile, DevHome};
use crate::dev::logins::Logins;
use crate::dev::mix;
use crate::dev::roles::{self, Urls};
use crate::dev::server::{Access, Ground};
use crate::dev::summary::Summary;
use crate::failure::Usage;
use crate::handlers::Handlers;
use crate::output::Output;
use crate::programs::Programs;
use crate::signals::Signals;

/// How long the first round of upkeep may keep the worker waiting.
const SETTLE: Duration = Duration::from_secs(10);
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

pub(crate) async fn run(config: &Config, args: DevArgs, output: Output) -> Result<ExitCode> {
    if let Some(address) = args.listen {
        let text = format!(
            "--listen {address}: this version has no HTTP server, and a setting without effect is refused"
        );
        return Err(Usage::new(text).into());
    }
    let programs = Programs::load(config.worker.commands_file.as_deref().or(Programs::found_here()))?;
    // From here on a signal waits until there is something to stop.
    let mut signals = Signals::listen()?;
    let config = Config { pg_bin: args.pg_bin.or_else(|| config.pg_bin.clone()), ..config.clone() };
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
    let handlers = Handlers::new(&config, &egress_settings(&config)?, programs)?;
    let worker = handlers.builder(settings).build()?.start().await?;
    ground.home.announce(&DevFile {
        url: None,
        database_url: urls.app.clone(),
        tenant_id: TENANT,
        keys: BTreeMap::new(),
    })?;
    tell(&ground, &urls, &report, args.no_demo, output)?;

    watch(&urls, &worker, args.no_demo, &mut signals).await;

    ground.home.withdraw();
    let orderly = signals.unless_repeated(stop(&worker, scheduler)).await.is_some();
    ground.server.stop().await?;
    eprintln!("stopped; the data stays in {}", ground.home.dir().display());
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

async fn stop(worker: &WorkerHandle, scheduler: SchedulerHandle) {
    let running = worker.stats().running;
    if running > 0 {
        eprintln!("stopping: {running} jobs may end first (Ctrl-C again: at once)");
    }
    worker.shutdown().await;
    scheduler.shutdown().await;
}

fn tell(ground: &Ground, urls: &Urls, report: &Report, no_demo: bool, output: Output) -> Result<()> {
    let (dir, file) = (ground.home.dir().display(), ground.home.dev_file());
    let database = redact(&urls.app);
    if output.is_json() {
        let json = json!({
            "data_dir": ground.home.dir(), "dev_file": file, "database_url": database, "tenant_id": TENANT,
        });
        return output.answer(&json, String::new);
    }
    let schema = match (report.applied.len(), report.functions_changed.len()) {
        (0, 0) => "up to date".to_owned(),
        (files, functions) => format!("{files} migrations and {functions} files of functions applied"),
    };
    let jobs = if no_demo { "none until you enqueue some" } else { "a few each second; --no-demo for none" };
    let file = file.display();
    eprintln!(
        "JobForge {} is ready.\n\
         \x20 Postgres  {}\n\
         \x20 database  {database}\n\
         \x20 schema    {schema}\n\
         \x20 tenant    demo, {TENANT}\n\
         \x20 jobs      {jobs}\n\
         \x20 egress    connectors may reach this machine too ({}), as `jobforge work` may not\n\
         \x20 details   {file} (with the password; readable by you alone)\n\n\
         Try, in another terminal in this directory:\n\
         \x20 jobforge jobs list\n\
         \x20 jobforge enqueue demo.echo --payload '{{\"hello\": \"world\"}}'\n\
         \x20 jobforge doctor\n\
         \x20 psql \"$(sed -n 's/.*\"database_url\": \"\\(.*\\)\".*/\\1/p' {file})\" \\\n\
         \x20   -c \"set app.tenant_id = '{TENANT}'\" -c 'select id, type, status from jobforge.jobs'\n\n\
         Ctrl-C stops everything; the data stays in {dir}.\n",
        env!("CARGO_PKG_VERSION"),
        ground.server.description,
        LOOPBACK.join(", "),
    );
    Ok(())
}
