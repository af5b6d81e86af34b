//! W2, W3 and W5: many jobs enqueued in bulk, then drained by one worker, and what both cost.

use std::time::Instant;

use anyhow::Result;

use super::{Samples, Setting, cost_samples};
use crate::contenders::{Bulk, Contender};
use crate::metric::{self, BULK, BULK_COST, DRAIN, DRAIN_COST};

pub async fn run(setting: &Setting<'_>, contender: &mut dyn Contender) -> Result<Samples> {
    let jobs = setting.plan.jobs;
    let empty_bytes = setting.server.schema_bytes(&setting.database_url, contender.relations()).await?;
    let best = contender.bulk_methods()[0];

    setting.server.settle(&setting.database_url).await?;
    let meter = setting.meter().await?;
    let rate = enqueue(setting, contender, best).await?;
    let mut samples = vec![(BULK, rate)];
    samples.extend(cost_samples(BULK_COST, meter.stop().await?, jobs));

    setting.server.settle(&setting.database_url).await?;
    let meter = setting.meter().await?;
    contender.connect().await?;
    let elapsed = contender.drain(jobs).await?;
    contender.disconnect().await?;
    samples.push((DRAIN, jobs as f64 / elapsed.as_secs_f64()));
    samples.extend(cost_samples(DRAIN_COST, meter.stop().await?, jobs));

    // What a queue leaves behind is both: the room it took until vacuum comes by, and what stays for good.
    for left in [metric::LEFT, metric::LEFT_VACUUMED] {
        let bytes = setting.server.schema_bytes(&setting.database_url, contender.relations()).await?;
        samples.push((left, (bytes - empty_bytes) as f64 / jobs as f64));
        setting.server.settle(&setting.database_url).await?;
    }
    Ok(samples)
}

pub async fn run_alternative(
    setting: &Setting<'_>,
    contender: &mut dyn Contender,
    method: &'static str,
) -> Result<Samples> {
    setting.server.settle(&setting.database_url).await?;
    let rate = enqueue(setting, contender, method).await?;
    Ok(vec![(metric::bulk_by(method), rate)])
}

/// Jobs per second.
async fn enqueue(setting: &Setting<'_>, contender: &mut dyn Contender, method: &'static str) -> Result<f64> {
    let jobs = setting.plan.jobs;
    contender.connect().await?;
    let start = Instant::now();
    contender.enqueue_bulk(Bulk { method, jobs, payload: setting.payload }).await?;
    let elapsed = start.elapsed();
    contender.disconnect().await?;
    Ok(jobs as f64 / elapsed.as_secs_f64())
}
