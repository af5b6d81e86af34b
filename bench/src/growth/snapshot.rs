//! W6f: a steady load while a foreign transaction holds a snapshot, so that nothing finished since can be vacuumed.
//!
//! On one database: the load without the snapshot, the same load with it, and at the end of that, with the snapshot
//! still held, the drain.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jobforge_core::{NewJob, rpc};
use jobforge_worker::{Context as JobContext, Outcome, Worker};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::ground::{Ground, Site};
use super::standing::{DONE, KEPT};
use super::{Evidence, Found, Scenario, Second};
use crate::connection::connect;
use crate::contenders::Contender;
use crate::contenders::jobforge::{TYPE, job};
use crate::metric::{self, Workload};
use crate::payload::Payload;
use crate::statistics::percentile;

/// Batches in which jobs are enqueued, a second: single calls would measure the enqueuing.
const BATCHES_PER_S: u32 = 100;

/// Seconds of the load without the snapshot, and at the end of the load with it, that are compared.
const WINDOW_SECONDS: u32 = 10;

pub async fn measure(ground: &Ground<'_>) -> Result<Found> {
    let (plan, scenario) = (ground.plan, Scenario::Snapshot);
    let growth = &plan.growth;
    let window = WINDOW_SECONDS.min(growth.held_seconds);
    let mut site = ground.site(scenario.name()).await?;
    let over = site.count(DONE).await?;

    // A second more than is looked at: connections, caches and compiled functions of the first calls.
    let free = load(&mut site, window + 1, growth.held_rate_per_s).await?;
    let foreign = connect(&site.database.url).await?;
    foreign.batch_execute(HOLD).await.context("holding a snapshot")?;
    let held = load(&mut site, growth.held_seconds, growth.held_rate_per_s).await?;
    let before = site.count(HELD_BACK).await?;

    site.enqueue(plan.jobs).await?;
    ground.server.refresh(&site.database).await?;
    let plain = ground.plain_drain().await?;
    let drained = site.drain(plan.jobs, Duration::ZERO).await?;
    let evidence = Evidence {
        scenario: scenario.name(),
        before,
        after: site.count(HELD_BACK).await?,
        drained: site.count(DONE).await? - over,
        strays: 0,
    };
    drop(foreign);
    site.clear().await?;

    let (free, end) = (Window::of(&free, window), Window::of(&held, window));
    let name = scenario.title(plan);
    let figure =
        |what: &str, unit, bounds| metric::named(Workload::W6, format!("{name}: {what}"), unit, bounds);
    Ok(Found {
        samples: vec![
            (figure("started at its end", "jobs/s", &[]), end.rate),
            (figure("started at its end / without", "ratio", KEPT), end.rate / free.rate),
            (figure("start p50 without", "ms", &[]), free.p50_ms),
            (figure("start p50 at its end", "ms", &[]), end.p50_ms),
            (figure("start p99 without", "ms", &[]), free.p99_ms),
            (figure("start p99 at its end", "ms", &[]), end.p99_ms),
            (figure("drain at its end", "jobs/s", &[]), drained.rate()),
            (metric::named(Workload::W6, format!("{name} / plain"), "ratio", KEPT), drained.rate() / plain),
        ],
        evidence: Some(evidence),
        held,
    })
}

/// The snapshot is taken by the first query, not by `begin`.
const HOLD: &str = "begin isolation level repeatable read; select count(*) from jobforge.tenants";

/// Transactions that the oldest snapshot of this database's clients does not see.
const HELD_BACK: &str = "select coalesce(max(age(backend_xmin)), 0)::bigint from pg_stat_activity
    where datname = current_database() and state = 'idle in transaction'";

/// Jobs at a pace, while a worker at its defaults runs them; second by second, by the moment of the start.
async fn load(site: &mut Site<'_>, seconds: u32, rate_per_s: u32) -> Result<Vec<Second>> {
    #[derive(Deserialize)]
    struct Stamped {
        stamp_ns: u64,
    }
    let epoch = Instant::now();
    let starts = Arc::new(Mutex::new(Vec::<(Duration, Duration)>::new()));
    let noted = Arc::clone(&starts);
    let worker = Worker::builder(site.jobforge.worker_config()?)
        .handle(TYPE, move |_: JobContext, stamped: Stamped| {
            let now = epoch.elapsed();
            let latency = now.saturating_sub(Duration::from_nanos(stamped.stamp_ns));
            noted.lock().expect("no handler panics while it notes").push((now, latency));
            async { Ok(Outcome::done()) }
        })
        .build()?;
    site.jobforge.connect().await?;
    let running = worker.start().await?;
    let begin = epoch.elapsed();
    let enqueued = enqueue(site, (epoch, seconds), rate_per_s).await;
    running.shutdown().await;
    site.jobforge.disconnect().await?;
    enqueued?;
    let starts = starts.lock().expect("no handler panics while it notes").clone();
    Ok(by_second(&starts, begin, seconds))
}

/// A late tick is made up for at once, so that a slow enqueue does not thin the load out; what an overloaded server
/// cannot take within the time is not enqueued.
async fn enqueue(site: &Site<'_>, (epoch, seconds): (Instant, u32), rate_per_s: u32) -> Result<()> {
    let producer = site.jobforge.producer()?;
    let end = Instant::now() + Duration::from_secs(u64::from(seconds));
    let mut ticks = interval(Duration::from_secs(1) / BATCHES_PER_S);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for _ in 0..seconds * BATCHES_PER_S {
        ticks.tick().await;
        if Instant::now() > end {
            break;
        }
        let stamp_ns = u64::try_from(epoch.elapsed().as_nanos())?;
        let stamped: NewJob = job(&Payload::from(json!({"a": 1, "stamp_ns": stamp_ns})));
        let batch = vec![stamped; (rate_per_s / BATCHES_PER_S).max(1) as usize];
        let answers = rpc::enqueue_jobs(producer, site.jobforge.tenant(), &batch).await?;
        ensure!(answers.iter().all(Result::is_ok), "a job of the batch was refused");
    }
    Ok(())
}

fn by_second(starts: &[(Duration, Duration)], begin: Duration, seconds: u32) -> Vec<Second> {
    let mut latencies = vec![Vec::new(); seconds as usize];
    for (at, latency) in starts {
        let second = at.saturating_sub(begin).as_secs() as usize;
        // What is started while the worker stops is of no second.
        if let Some(latencies) = latencies.get_mut(second) {
            latencies.push(latency.as_secs_f64() * 1e3);
        }
    }
    let second = |(second, latencies): (usize, &Vec<f64>)| Second {
        second: second as u32,
        started: latencies.len(),
        p50_ms: percentile(latencies, 50.0).unwrap_or(0.0),
        p99_ms: percentile(latencies, 99.0).unwrap_or(0.0),
    };
    latencies.iter().enumerate().map(second).collect()
}

/// The last seconds of a load: the rate over all, and of the latencies the worst second's.
struct Window {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Window {
    fn of(seconds: &[Second], window: u32) -> Self {
        let last = &seconds[seconds.len().saturating_sub(window as usize)..];
        let worst = |value: fn(&Second) -> f64| last.iter().map(value).fold(0.0, f64::max);
        let started: usize = last.iter().map(|second| second.started).sum();
        Self {
            rate: started as f64 / last.len().max(1) as f64,
            p50_ms: worst(|second| second.p50_ms),
            p99_ms: worst(|second| second.p99_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_fall_into_their_seconds() {
        let ms = Duration::from_millis;
        let starts = [(ms(1100), ms(5)), (ms(1900), ms(7)), (ms(2500), ms(40)), (ms(9000), ms(1))];
        let seconds = by_second(&starts, ms(1000), 2);
        assert_eq!(
            seconds,
            vec![
                Second { second: 0, started: 2, p50_ms: 5.0, p99_ms: 7.0 },
                Second { second: 1, started: 1, p50_ms: 40.0, p99_ms: 40.0 },
            ]
        );
        let end = Window::of(&seconds, 1);
        assert_eq!((end.rate, end.p50_ms), (1.0, 40.0));
        assert_eq!(Window::of(&seconds, 2).rate, 1.5);
    }
}
