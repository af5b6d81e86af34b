//! W1 over HTTP: many clients, each with a connection that it keeps, enqueue one by one for many tenants, each job durable
//! before the next. With gathering and without, in the same run; and beside a transaction that holds a key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::future::{try_join, try_join_all};
use jobforge_core::{NewJob, rpc};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Samples, Setting, single};
use crate::connection::connect;
use crate::contenders::jobforge::{TYPE, job};
use crate::contenders::{Contender, SLOTS};
use crate::http::{Client, Served};
use crate::metric::{HTTP, HTTP_ALONE, HTTP_GAIN, HTTP_HELD_P99, HTTP_P99};
use crate::payload::Payload;
use crate::statistics::percentile;

const CLIENTS: usize = 64;
/// Requests of each client before the watch starts.
const WARM_UP: usize = 5;
const HELD: &str = "held";

/// What the clients saw.
struct Load {
    rate: f64,
    millis: Vec<f64>,
}

/// What a client sends.
#[derive(Clone)]
enum Bodies {
    /// The same again and again.
    Plain(Arc<str>),
    /// Each with a key of its own.
    Keyed(Payload),
}

pub async fn run(setting: &Setting<'_>, contender: &mut dyn Contender) -> Result<Samples> {
    setting.server.settle(&setting.database).await?;
    let Some(gathered) = contender.serve(true).await? else {
        return Ok(vec![(HTTP, single::rate(setting, contender, SLOTS).await?)]);
    };
    let plain = Bodies::Plain(body(setting.payload, None));
    let together = load(setting, &gathered, [&plain, &plain]).await?;
    let held = beside_a_held_key(setting, &gathered).await?;
    gathered.handle.shutdown().await;

    setting.server.settle(&setting.database).await?;
    let apart = contender.serve(false).await?.context("a server that served before")?;
    let alone = load(setting, &apart, [&plain, &plain]).await?;
    apart.handle.shutdown().await;

    let p99 = |load: &Load| percentile(&load.millis, 99.0).context("no latencies were measured");
    Ok(vec![
        (HTTP, together.rate),
        (HTTP_ALONE, alone.rate),
        (HTTP_GAIN, together.rate / alone.rate),
        (HTTP_P99, p99(&together)?),
        (HTTP_HELD_P99, p99(&held)?),
    ])
}

/// Every other client brings keys of its own, while one more comes with a key that an open transaction holds.
async fn beside_a_held_key(setting: &Setting<'_>, served: &Served) -> Result<Load> {
    let mut holder = connect(&served.producer_url).await?;
    let held = holder.transaction().await?;
    let (tenant, _) = served.tenants[0];
    let job = NewJob { idempotency_key: Some(HELD.to_owned()), ..job(setting.payload) };
    rpc::enqueue_job(&held, tenant, &job).await?;

    let mut waiting = served.client(0).await?;
    let waits = async { waiting.enqueue(&body(setting.payload, Some(HELD))).await };
    let measured = async {
        let plain = Bodies::Plain(body(setting.payload, None));
        let load = load(setting, served, [&plain, &Bodies::Keyed(setting.payload.clone())]).await;
        held.rollback().await?;
        load
    };
    // Whoever waited gets its job once the key is free.
    let ((), load) = try_join(waits, measured).await?;
    Ok(load)
}

/// Lets all clients loose, by turns with one kind of bodies and the other.
async fn load(setting: &Setting<'_>, served: &Served, bodies: [&Bodies; 2]) -> Result<Load> {
    let clients = try_join_all((0..CLIENTS).map(|number| served.client(number))).await?;
    let mut running = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        running.spawn(enqueue_for(client, bodies[number % 2].clone(), setting.plan.single_time));
    }
    let mut all = Load { rate: 0.0, millis: Vec::new() };
    while let Some(one) = running.join_next().await {
        let one = one??;
        all.rate += one.rate;
        all.millis.extend(one.millis);
    }
    Ok(all)
}

/// What one client sees in this time.
async fn enqueue_for(mut client: Client, bodies: Bodies, time: Duration) -> Result<Load> {
    for _ in 0..WARM_UP {
        client.enqueue(&bodies.next()).await?;
    }
    let (start, mut millis) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let sent = Instant::now();
        client.enqueue(&bodies.next()).await?;
        millis.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Load { rate: millis.len() as f64 / start.elapsed().as_secs_f64(), millis })
}

impl Bodies {
    fn next(&self) -> Arc<str> {
        match self {
            Bodies::Plain(body) => body.clone(),
            Bodies::Keyed(payload) => body(payload, Some(&Uuid::now_v7().to_string())),
        }
    }
}

fn body(payload: &Payload, key: Option<&str>) -> Arc<str> {
    let mut job = json!({ "type": TYPE, "payload": payload.value });
    if let Some(key) = key {
        job["idempotency_key"] = key.into();
    }
    job.to_string().into()
}
