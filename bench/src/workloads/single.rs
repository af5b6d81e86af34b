//! W1: jobs enqueued one by one, each durable before the next, on one connection or on several at once.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::{Samples, Setting};
use crate::contenders::Contender;
use crate::metric::{SINGLE_1, SINGLE_10};

/// Calls on each connection before the watch starts: catalogue caches, compiled functions, statement caches.
const WARM_UP: usize = 20;

pub async fn run(
    setting: &Setting<'_>,
    contender: &mut dyn Contender,
    connections: usize,
) -> Result<Samples> {
    let rate = rate(setting, contender, connections).await?;
    Ok(vec![(if connections == 1 { SINGLE_1 } else { SINGLE_10 }, rate)])
}

/// Jobs a second on so many connections.
pub async fn rate(
    setting: &Setting<'_>,
    contender: &mut dyn Contender,
    connections: usize,
) -> Result<f64> {
    setting.server.settle(&setting.database).await?;
    contender.connect().await?;
    for slot in 0..connections {
        for _ in 0..WARM_UP {
            contender.enqueue_one(slot, setting.payload).await?;
        }
    }

    let start = Instant::now();
    let slots = (0..connections).map(|slot| enqueue_until(setting, &*contender, (slot, start)));
    let jobs: usize = try_join_all(slots).await?.into_iter().sum();
    let rate = jobs as f64 / start.elapsed().as_secs_f64();
    contender.disconnect().await?;
    Ok(rate)
}

async fn enqueue_until(
    setting: &Setting<'_>,
    contender: &dyn Contender,
    (slot, start): (usize, Instant),
) -> Result<usize> {
    let mut jobs = 0;
    while start.elapsed() < setting.plan.single_time {
        contender.enqueue_one(slot, setting.payload).await?;
        jobs += 1;
    }
    Ok(jobs)
}
