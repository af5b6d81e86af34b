//! Pickup latency (W4): a steady trickle of jobs, each carrying the moment its enqueue began, and a recorder that
//! the handlers report to. Both ends live in this process, so one monotonic clock serves for both.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::payload::Payload;

/// How long the last jobs may take to arrive before the pass is called broken.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// A trickle of `rate_per_s` jobs for `seconds`, after `warm_up` jobs that are not counted (connections, caches and
/// compiled functions of the first calls would otherwise stand in the tail).
#[derive(Debug, Clone)]
pub struct PickupPlan {
    pub rate_per_s: u32,
    pub seconds: u32,
    pub warm_up: usize,
    pub payload: Payload,
}

impl PickupPlan {
    fn jobs(&self) -> usize {
        self.warm_up + (self.rate_per_s * self.seconds) as usize
    }
}

/// Collects the moments at which handlers start.
#[derive(Debug)]
pub struct Recorder {
    epoch: Instant,
    expected: usize,
    latencies: Mutex<Vec<Duration>>,
    complete: Notify,
}

impl Recorder {
    pub fn new(plan: &PickupPlan) -> Arc<Self> {
        Arc::new(Self {
            epoch: Instant::now(),
            expected: plan.jobs(),
            latencies: Mutex::new(Vec::with_capacity(plan.jobs())),
            complete: Notify::new(),
        })
    }

    /// To be called first thing in the handler, with the stamp found in the payload.
    pub fn handler_started(&self, stamp_ns: u64) {
        let latency = self.epoch.elapsed().saturating_sub(Duration::from_nanos(stamp_ns));
        let mut latencies = self.latencies.lock().expect("no handler panics while it records");
        latencies.push(latency);
        if latencies.len() == self.expected {
            self.complete.notify_one();
        }
    }

    fn stamp_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).expect("the bench ends within 584 years")
    }

    fn taken(&self) -> Vec<Duration> {
        self.latencies.lock().expect("no handler panics while it records").clone()
    }
}

/// Enqueues by the plan while the contender's worker runs, waits for the last handler and returns the latencies.
///
/// A late tick is made up for at once, so a slow enqueue does not thin the load out.
pub async fn pace<F, Fut>(plan: &PickupPlan, recorder: &Recorder, enqueue: F) -> Result<Vec<Duration>>
where
    F: Fn(Payload) -> Fut + Send,
    Fut: Future<Output = Result<()>> + Send,
{
    let mut ticks = interval(Duration::from_secs(1) / plan.rate_per_s);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for _ in 0..plan.jobs() {
        ticks.tick().await;
        enqueue(plan.payload.stamped(recorder.stamp_ns())).await?;
    }
    timeout(ARRIVAL_TIMEOUT, recorder.complete.notified())
        .await
        .with_context(|| format!("only {} of {} jobs arrived", recorder.taken().len(), plan.jobs()))?;
    Ok(recorder.taken().split_off(plan.warm_up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Size;

    #[tokio::test]
    async fn warm_up_is_left_out() {
        let plan =
            PickupPlan { rate_per_s: 1000, seconds: 1, warm_up: 5, payload: Payload::new(Size::Small) };
        let recorder = Recorder::new(&plan);
        let latencies = pace(&plan, &recorder, |payload| {
            recorder.handler_started(payload.value["stamp_ns"].as_u64().unwrap());
            async { Ok(()) }
        });
        assert_eq!(latencies.await.unwrap().len(), 1000);
    }
}
