//! `jobforge dev`: everything in one process on a private Postgres, until it is told to stop.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use jobforge_connectors::egress::{EgressSettings, parse_nets};
use jobforge_core::Artifacts;
use jobforge_scheduler::{Scheduler, SchedulerConfig, SchedulerHandle};
use jobforge_server::ServerHandle;
use jobforge_server::auth::TokenConfig;
use jobforge_worker::{WorkerConfig, WorkerHandle};

use crate::cli::DevArgs;
use crate::commands::schedule::{scheduler_config, why_ended};
use crate::commands::work::End;
use crate::config::{Config, has_plain_url};
use crate::demo::TENANT;
use crate::dev::api;
use crate::dev::binaries;
use crate::dev::home::{DevFile, DevHome};
use crate::dev::logins::Logins;
use crate::dev::roles::{self, Urls};
use crate::dev::server::{Access, Ground};
use crate::dev::summary::Summary;
use crate::dev::tick::{DueJobs, Rounds};
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
    if config.database_url.is_none() && has_plain_url() {
        say(
            "DATABASE_URL is set and not used: `dev` takes --database-url or JOBFORGE_DATABASE_URL. Other commands use it \
             unless it is emptied (DATABASE_URL= jobforge …).",
        );
    }
    let programs = Programs::load(config.worker.commands_file.as_deref().or(Programs::found_here()))?;
    let egress = egress_settings(config)?;
    let tokens = token_config(&config.server.tokens, || Ok(egress.clone()))?;
    let config = Config { pg_bin: args.pg_bin.or_else(|| config.pg_bin.clone()), ..config.clone() };
    binaries::offer(&config, args.yes)?;
    // From here on a signal ends in an orderly way what was begun.
    let mut signals = Signals::listen()?;
    // Takes seconds: a signal is heard after it, when there is a Postgres to stop.
    let ground = Ground::prepare(&config, args.data_dir).await?;
    let given =
        Given { config, egress, tokens, programs, listen: args.listen, no_demo: args.no_demo, output };
    let mut parts = Parts::default();
    let end = match signals.unless_repeated(parts.run(given, &ground)).await {
        Some(end) => end,
        None if parts.ready => Ok(End::Stopped),
        None => Ok(End::Interrupted),
    };
    ground.home.withdraw();
    let orderly = signals.unless_repeated(parts.stop()).await.is_some();
    if !orderly {
        // Jobs go back while there is a Postgres to take them; a third signal does not even wait for that.
        let _ = signals.unless_repeated(parts.interrupt()).await;
    }
    let stopped = ground.server.stop().await;
    let end = end?;
    stopped?;
    say(&format!("stopped; the data stays in {}", ground.home.dir().display()));
    let code = end.asked_for()?;
    Ok(if orderly { code } else { End::Interrupted.code() })
}

/// What the command line and the settings say.
struct Given {
    config: Config,
    egress: EgressSettings,
    tokens: Option<TokenConfig>,
    programs: Programs,
    listen: Option<SocketAddr>,
    no_demo: bool,
    output: Output,
}

/// What runs on the ground, as far as it was started.
#[derive(Default)]
struct Parts {
    scheduler: Option<SchedulerHandle>,
    worker: Option<WorkerHandle>,
    server: Option<ServerHandle>,
    ticks: Rounds,
    /// People and programs were told.
    ready: bool,
}

impl Parts {
    /// Starts one after the other and keeps them company, until one ends that should not.
    async fn run(&mut self, given: Given, ground: &Ground) -> Result<End> {
        let Given { config, egress, tokens, programs, listen, no_demo, output } = given;
        let (urls, report) = roles::prepare(&ground.server.access, &logins(&ground.home)?).await?;
        let store: Option<Arc<dyn Artifacts>> =
            config.artifacts.open(Some(&ground.home.artifacts_dir()))?.map(|store| store as _);
        let settings = scheduler_settings(&config, &urls, ground);
        let settings = SchedulerConfig { artifacts: store.clone(), ..settings };
        let scheduler = self.scheduler.insert(Scheduler::start(settings).await?);
        // Completions before their partition exists would go to the default one, and keep it from being made.
        let _ = tokio::time::timeout(SETTLE, scheduler.settled()).await;
        programs.define(&urls.operator).await?;
        let settings = WorkerConfig { artifacts: store, ..worker_settings(&config, &urls) };
        let handlers = Handlers::new(&config, &egress, programs)?;
        let due =
            DueJobs { config: config.clone(), egress, worker: settings.clone(), rounds: self.ticks.clone() };
        let worker = self.worker.insert(handlers.builder(settings).build()?.start().await?);
        let keys = keys::prepare(&ground.home, &urls.operator).await?;
        let server = api::start(&config, &urls, api::Given { due, tokens }, listen).await?;
        let url = format!("http://{}", self.server.insert(server).address());
        ground.home.announce(&DevFile {
            url: Some(url.clone()),
            database_url: urls.app.clone(),
            tenant_id: TENANT,
            keys,
        })?;
        self.ready = true;
        Welcome { ground, urls: &urls, report: &report, url: &url, no_demo }.tell(output)?;
        watch(&urls, worker, scheduler, no_demo).await
    }

    /// Lets running jobs end within the grace.
    async fn stop(&mut self) {
        let running = self.worker.as_ref().map_or(0, |worker| worker.stats().running);
        let what = match (running, self.ticks.under_way()) {
            (0, 0) => None,
            (0, _) => Some("the jobs of a tick".to_owned()),
            (_, 0) => Some(format!("{running} jobs")),
            _ => Some(format!("{running} jobs and those of a tick")),
        };
        if let Some(what) = what {
            say(&format!("stopping: {what} may end first (Ctrl-C again: at once)"));
        }
        let end_serving = async {
            if let Some(server) = self.server.take() {
                server.shutdown().await;
            }
        };
        let end_working = end_working(self.worker.as_ref(), &self.ticks);
        tokio::join!(end_serving, end_working);
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.shutdown().await;
        }
    }

    /// After a stop that was broken off: interrupts the jobs that still run, and gives them back.
    async fn interrupt(self) {
        end_working(self.worker.as_ref(), &self.ticks).await;
    }
}

/// Called again, it does not wait any longer for handlers.
async fn end_working(worker: Option<&WorkerHandle>, ticks: &Rounds) {
    let end_worker = async {
        if let Some(worker) = worker {
            worker.shutdown().await;
        }
    };
    tokio::join!(end_worker, ticks.shutdown());
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

/// Keeps the line up to date and the jobs coming, until the worker or the scheduler ends by itself.
async fn watch(
    urls: &Urls,
    worker: &WorkerHandle,
    scheduler: &SchedulerHandle,
    no_demo: bool,
) -> Result<End> {
    let summary = Summary::new(urls.app.clone());
    let mix = async {
        if no_demo {
            std::future::pending::<()>().await;
        } else {
            mix::run(urls.app.clone(), summary.counts()).await;
        }
    };
    tokio::select! {
        () = summary.run(worker) => Ok(End::Stopped),
        () = mix => Ok(End::Stopped),
        () = worker.ended() => Ok(End::Itself),
        () = scheduler.ended() => Err(why_ended(scheduler)),
    }
}

#[cfg(test)]
mod tests {
    use jobforge_core::NewJob;
    use jobforge_core::rpc::{enqueue_job, get_job};
    use jobforge_scheduler::Faults;
    use jobforge_testkit::{APP, NOOP, OPERATOR, PASSWORD, TENANT_A, TestDb, WORKER};
    use jobforge_worker::{Context, Outcome, Stats, Worker};
    use serde::de::IgnoredAny;
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;
    use uuid::Uuid;

    use super::*;

    /// A worker that ends by itself if it is to run once, beside a scheduler.
    async fn parts(db: &TestDb, once: bool, faults: Faults) -> (Urls, WorkerHandle, SchedulerHandle) {
        let url = |login| db.url_as(login, Some(PASSWORD));
        let urls = Urls { app: url(APP), worker: url(WORKER), operator: url(OPERATOR) };
        let settings = WorkerConfig { database_url: urls.worker.clone(), ..WorkerConfig::default() };
        let noop = async |_: Context, _: IgnoredAny| Ok(Outcome::done());
        let worker = Worker::builder(settings).handle(NOOP, noop).build().unwrap();
        let worker = if once { worker.start_once(1).await } else { worker.start().await }.unwrap();
        let (database_url, holder) = (urls.operator.clone(), "dev".to_owned());
        let settings = SchedulerConfig { database_url, holder, faults, ..SchedulerConfig::default() };
        let scheduler = Scheduler::start(settings).await.unwrap();
        (urls, worker, scheduler)
    }

    /// Nothing that a worker meets should end it; one that has nothing more to do does.
    #[tokio::test]
    async fn a_worker_that_ends_by_itself_is_noticed() {
        let db = TestDb::new().await;
        let (urls, worker, scheduler) = parts(&db, true, Faults::default()).await;
        assert_eq!(watch(&urls, &worker, &scheduler, true).await.unwrap(), End::Itself);
    }

    #[tokio::test]
    async fn a_scheduler_that_ends_by_itself_is_noticed() {
        let db = TestDb::new().await;
        let hook = |point| assert_ne!(point, "lead", "made to panic");
        let (urls, worker, scheduler) = parts(&db, false, Faults::at_points(Arc::new(hook))).await;
        let ended = watch(&urls, &worker, &scheduler, true).await;
        assert!(ended.unwrap_err().to_string().contains("the scheduler ended by itself"));
    }

    /// A server that runs nothing but one tick, with one job that ends when it may.
    async fn ticking(db: &TestDb) -> (Parts, Uuid, Arc<Notify>, JoinHandle<Stats>) {
        let database_url = db.url_as(WORKER, Some(PASSWORD));
        let settings = WorkerConfig { database_url, grace_seconds: 3600, ..WorkerConfig::default() };
        let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let signals = (begun.clone(), may_end.clone());
        let waits = move |_: Context, _: IgnoredAny| {
            let (begun, may_end) = signals.clone();
            async move {
                begun.notify_one();
                may_end.notified().await;
                Ok(Outcome::done())
            }
        };
        let worker = Worker::builder(settings).handle(NOOP, waits).build().unwrap();
        let job = NewJob::new(NOOP, &()).unwrap();
        let id = enqueue_job(&db.as_app().await, TENANT_A, &job).await.unwrap().id;
        let parts = Parts::default();
        let ticks = parts.ticks.clone();
        let tick = tokio::spawn(async move { ticks.run(&worker, 1).await.unwrap() });
        begun.notified().await;
        (parts, id, may_end, tick)
    }

    #[tokio::test]
    async fn the_jobs_of_a_tick_may_end_before_a_stop_does() {
        let db = TestDb::new().await;
        let (mut parts, _, may_end, tick) = ticking(&db).await;
        tokio::join!(parts.stop(), async { may_end.notify_one() });
        assert_eq!(parts.ticks.under_way(), 0);
        assert_eq!(tick.await.unwrap().completed, 1);
    }

    #[tokio::test]
    async fn an_interrupted_stop_gives_back_the_jobs_of_a_tick() {
        let db = TestDb::new().await;
        let (mut parts, id, _, tick) = ticking(&db).await;
        tokio::select! {
            biased;
            () = parts.stop() => panic!("the job of the tick was not waited for"),
            () = std::future::ready(()) => {}
        }
        parts.interrupt().await;
        assert_eq!(tick.await.unwrap().released, 1);
        let job = get_job(&db.as_app().await, TENANT_A, id).await.unwrap();
        assert_eq!((job.status.as_str(), job.deaths), ("queued", 0));
    }
}
