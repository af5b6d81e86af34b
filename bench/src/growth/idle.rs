//! W8: what ten workers and a scheduler cost that have nothing to do.
//!
//! Schedules do not exist yet: the scheduler has its other duties only.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::{join_all, try_join_all};
use jobforge_scheduler::{Scheduler, SchedulerConfig};
use jobforge_worker::{Context as JobContext, Outcome, Worker, WorkerHandle};
use serde::de::IgnoredAny;
use tokio::time::sleep;

use super::ground::{Ground, Site};
use super::{Evidence, Found, Scenario};
use crate::contenders::jobforge::TYPE;
use crate::cost::Meter;
use crate::metric::{self, Against, Bound, Limit, Workload};
use crate::postgres_cpu::own_cpu_seconds;

const WORKERS: usize = 10;

/// Until backends have reported what they did before they fell asleep, which they do within ten seconds.
const SETTLING: Duration = Duration::from_secs(12);

/// How long workers may take to fall asleep before the run is called broken.
const ASLEEP_TIMEOUT: Duration = Duration::from_secs(60);

const QUERIES: &[Bound] = &[metric::bound(Against::Nothing, Limit::AtMost(2.0))];
const CORE: &[Bound] = &[metric::bound(Against::Nothing, Limit::AtMost(1.0))];

pub async fn measure(ground: &Ground<'_>) -> Result<Found> {
    let seconds = Duration::from_secs(u64::from(ground.plan.growth.idle_seconds));
    let site = ground.site(Scenario::Idle.name()).await?;
    site.lay_out("update jobforge.leader set expires_at = '-infinity'").await?;
    let scheduler = Scheduler::start(SchedulerConfig {
        database_url: site.jobforge.operator_url()?,
        holder: "bench scheduler".to_owned(),
        ..SchedulerConfig::default()
    })
    .await?;
    let workers = try_join_all((0..WORKERS).map(|_| idle_worker(&site))).await?;
    scheduler.settled().await;
    all_asleep(&site).await?;
    sleep(SETTLING.min(seconds)).await;

    let meter = Meter::start(ground.server, ground.postmaster.as_ref(), &site.database).await?;
    let (own, start) = (own_cpu_seconds()?, Instant::now());
    sleep(seconds).await;
    let cost = meter.so_far().await?;
    let (own, elapsed) = (own_cpu_seconds()? - own, start.elapsed().as_secs_f64());
    let before = site.count(SLEEPERS).await?;

    join_all(workers.iter().map(WorkerHandle::shutdown)).await;
    scheduler.shutdown().await;
    let after = site.count(SLEEPERS).await?;
    site.clear().await?;
    let name = "10 idle workers, 1 scheduler";
    let figure =
        |what: &str, unit, bounds| metric::named(Workload::W8, format!("{name}: {what}"), unit, bounds);
    let mut samples = vec![
        (figure("transactions", "per s", QUERIES), cost.transactions / elapsed),
        (figure("their process", "% of a core", &[]), 100.0 * own / elapsed),
    ];
    if let Some(postgres) = cost.cpu_seconds {
        samples.push((figure("Postgres", "% of a core", &[]), 100.0 * postgres / elapsed));
        samples.push((figure("both", "% of a core", CORE), 100.0 * (postgres + own) / elapsed));
    }
    let evidence = Evidence { scenario: Scenario::Idle.name(), before, after, drained: 0, strays: 0 };
    Ok(Found { samples, evidence: Some(evidence), held: Vec::new() })
}

const SLEEPERS: &str = "select count(*) from jobforge.sleepers";

async fn all_asleep(site: &Site<'_>) -> Result<()> {
    let deadline = Instant::now() + ASLEEP_TIMEOUT;
    while site.count(SLEEPERS).await? < WORKERS as i64 {
        ensure!(Instant::now() < deadline, "not all workers fell asleep on an empty queue");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn idle_worker(site: &Site<'_>) -> Result<WorkerHandle> {
    let worker = Worker::builder(site.jobforge.worker_config()?)
        .handle(TYPE, |_: JobContext, _: IgnoredAny| async { Ok(Outcome::done()) })
        .build()?;
    Ok(worker.start().await?)
}
