//! The drain of a given number of jobs by one worker at its defaults, where more may wait than that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jobforge_worker::{Context as JobContext, Outcome, Worker, WorkerHandle};
use serde::de::IgnoredAny;
use tokio::time::sleep;
use uuid::Uuid;

use super::ground::Site;
use crate::contenders::jobforge::TYPE;

/// How long a drain may stand still before it is called broken.
const STALL: Duration = Duration::from_secs(60);

/// How often the worker's count is looked at: a thousandth of the shortest drain that means anything.
const LOOK: Duration = Duration::from_millis(1);

pub struct Drained {
    pub jobs: usize,
    pub elapsed: Duration,
    /// Whose jobs the first starts were, as many as were asked for.
    pub starts: HashMap<Uuid, usize>,
}

impl Drained {
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.elapsed.as_secs_f64()
    }
}

impl Site<'_> {
    /// Runs until that many jobs are durably done; what a worker holds beyond them goes back after the watch stopped.
    pub async fn drain(&self, jobs: usize, each_takes: Duration) -> Result<Drained> {
        let starts = Arc::new(Starts::new(jobs));
        let noted = Arc::clone(&starts);
        let worker = Worker::builder(self.jobforge.worker_config()?)
            .handle(TYPE, move |context: JobContext, _: IgnoredAny| {
                noted.one(context.tenant_id());
                async move {
                    if !each_takes.is_zero() {
                        sleep(each_takes).await;
                    }
                    Ok(Outcome::done())
                }
            })
            .build()?;
        let start = Instant::now();
        let running = worker.start().await?;
        let elapsed = completed(&running, jobs, start).await;
        running.shutdown().await;
        Ok(Drained { jobs, elapsed: elapsed?, starts: starts.by_tenant() })
    }
}

async fn completed(running: &WorkerHandle, jobs: usize, start: Instant) -> Result<Duration> {
    let mut seen = (0, start);
    loop {
        let completed = running.stats().completed;
        if completed >= jobs as u64 {
            return Ok(start.elapsed());
        }
        if completed > seen.0 {
            seen = (completed, Instant::now());
        }
        ensure!(seen.1.elapsed() < STALL, "the drain stands still at {completed} of {jobs} jobs");
        sleep(LOOK).await;
    }
}

/// The first starts, by tenant.
struct Starts {
    most: usize,
    counts: Mutex<(usize, HashMap<Uuid, usize>)>,
}

impl Starts {
    fn new(most: usize) -> Self {
        Self { most, counts: Mutex::default() }
    }

    fn one(&self, tenant: Uuid) {
        let mut counts = self.counts.lock().expect("no handler panics while it counts");
        if counts.0 < self.most {
            counts.0 += 1;
            *counts.1.entry(tenant).or_default() += 1;
        }
    }

    fn by_tenant(&self) -> HashMap<Uuid, usize> {
        self.counts.lock().expect("no handler panics while it counts").1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_starts_count() {
        let (starts, large, small) = (Starts::new(3), Uuid::from_u128(1), Uuid::from_u128(2));
        for tenant in [large, small, large, large] {
            starts.one(tenant);
        }
        assert_eq!(starts.by_tenant(), HashMap::from([(large, 2), (small, 1)]));
    }
}
