//! W2, W3 and W5: many jobs enqueued in bulk, then drained by one worker, and what both cost.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Samples, Setting, cost_samples};
use crate::contenders::{Bulk, Contender};
use crate::cost::Cost;
use crate::metric::{self, BULK, BULK_COST, DRAIN, DRAIN_COST};

pub async fn run(setting: &Setting<'_>, contender: &mut dyn Contender) -> Result<Samples> {
    let jobs = setting.plan.jobs;
    let schema = contender.relations();
    let empty_bytes = setting.server.schema_bytes(&setting.database, schema).await?;

    let best = contender.bulk_methods()[0];
    let (elapsed, cost) = enqueue(setting, contender, best).await?;
    let mut samples = vec![(BULK, rate(jobs, elapsed))];
    samples.extend(cost_samples(BULK_COST, cost, jobs));

    let (elapsed, cost) = drain(setting, contender).await?;
    samples.push((DRAIN, rate(jobs, elapsed)));
    samples.extend(cost_samples(DRAIN_COST, cost, jobs));

    // What a queue leaves behind is both: the room it took until vacuum comes by, and what stays for good.
    for left in [metric::LEFT, metric::LEFT_VACUUMED] {
        let bytes = setting.server.schema_bytes(&setting.database, schema).await?;
        samples.push((left, (bytes - empty_bytes) as f64 / jobs as f64));
        setting.server.settle(&setting.database).await?;
    }
    Ok(samples)
}

pub async fn run_alternative(
    setting: &Setting<'_>,
    contender: &mut dyn Contender,
    method: &'static str,
) -> Result<Samples> {
    let (elapsed, _) = enqueue(setting, contender, method).await?;
    Ok(vec![(metric::bulk_by(method), rate(setting.plan.jobs, elapsed))])
}

async fn enqueue(
    setting: &Setting<'_>,
    contender: &mut dyn Contender,
    method: &'static str,
) -> Result<(Duration, Cost)> {
    setting.server.settle(&setting.database).await?;
    contender.connect().await?;
    let meter = setting.meter().await?;
    let start = Instant::now();
    contender.enqueue_bulk(Bulk { method, jobs: setting.plan.jobs, payload: setting.payload }).await?;
    let elapsed = start.elapsed();
    contender.disconnect().await?;
    Ok((elapsed, meter.stop().await?))
}

async fn drain(setting: &Setting<'_>, contender: &mut dyn Contender) -> Result<(Duration, Cost)> {
    setting.server.settle(&setting.database).await?;
    contender.connect().await?;
    let meter = setting.meter().await?;
    let elapsed = contender.drain(setting.plan.jobs).await?;
    contender.disconnect().await?;
    Ok((elapsed, meter.stop().await?))
}

fn rate(jobs: usize, elapsed: Duration) -> f64 {
    jobs as f64 / elapsed.as_secs_f64()
}
