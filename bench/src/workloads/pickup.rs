//! W4: how long a job takes from the start of its enqueue to the start of its handler, on a queue that is nearly idle.

use anyhow::{Context, Result};

use super::{Samples, Setting};
use crate::contenders::Contender;
use crate::metric::{PICKUP_MAX, PICKUP_P50, PICKUP_P99};
use crate::pickup::PickupPlan;
use crate::statistics::percentile;

pub async fn run(setting: &Setting<'_>, contender: &mut dyn Contender) -> Result<Samples> {
    let rate_per_s = setting.plan.pickup_rate_per_s;
    let plan = PickupPlan {
        rate_per_s,
        seconds: setting.plan.pickup_seconds,
        warm_up: rate_per_s as usize,
        payload: setting.payload.clone(),
    };
    setting.server.settle(&setting.database).await?;
    contender.connect().await?;
    let latencies = contender.pickup(&plan).await?;
    contender.disconnect().await?;

    let millis: Vec<f64> = latencies.iter().map(|latency| latency.as_secs_f64() * 1e3).collect();
    let at = |percent| percentile(&millis, percent).context("no latencies were measured");
    Ok(vec![(PICKUP_P50, at(50.0)?), (PICKUP_P99, at(99.0)?), (PICKUP_MAX, at(100.0)?)])
}
