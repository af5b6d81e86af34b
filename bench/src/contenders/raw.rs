//! The raw-SQL limit: what this Postgres can do when nothing is asked of it but to hand rows out and delete them.
//!
//! Two connections, batches of 500, claim by `UPDATE … RETURNING`, complete by `DELETE`; no functions, roles,
//! fences or history. Every statement goes out unnamed and typed, in one round trip: the protocol JobForge uses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use serde::Deserialize;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{Json, Type};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::{Bulk, Contender, SLOTS};
use crate::connection::{connect, connect_listening};
use crate::payload::Payload;
use crate::pickup::{PickupPlan, Recorder, pace};

const WORKERS: usize = 2;
const BATCH: i64 = 500;
const UNNEST_ROWS: usize = 5_000;
const COPY: &str = "COPY";
const UNNEST: &str = "unnest";
const QUEUE: &str = "default";
const TYPE: &str = "bench.noop";

const SCHEMA: &str = "
create schema raw;
create table raw.jobs (
  id        uuid primary key,
  tenant_id uuid not null,
  queue     text not null,
  type      text not null,
  priority  smallint not null default 0,
  run_at    timestamptz not null default now(),
  payload   jsonb not null,
  status    smallint not null default 0
);
create index jobs_queue_order on raw.jobs (queue, priority, run_at, id) where status = 0;
";

const INSERT: &str = "insert into raw.jobs (id, tenant_id, queue, type, payload) values ($1, $2, $3, $4, $5)";

/// The floor of pickup latency: the insert and the wake-up in one statement.
const INSERT_AND_NOTIFY: &str = "
with job as (
  insert into raw.jobs (id, tenant_id, queue, type, payload) values ($1, $2, $3, $4, $5) returning queue
)
select pg_notify('raw_jobs', queue) from job";

const INSERT_UNNEST: &str = "
insert into raw.jobs (id, tenant_id, queue, type, payload)
select job.id, $2, $3, $4, job.payload from unnest($1, $5) as job (id, payload)";

/// The array of row addresses keeps this a walk of the index; a join would let the planner choose.
const CLAIM: &str = "
update raw.jobs set status = 1
where ctid = any(array(
  select ctid from raw.jobs
  where queue = $1 and status = 0 and run_at <= now()
  order by priority, run_at, id
  limit $2
  for update skip locked))
returning id, type, payload";

const COMPLETE: &str = "delete from raw.jobs where id = any($1)";

/// See the module's head.
#[derive(Default)]
pub struct Raw {
    database_url: String,
    tenant: Uuid,
    clients: Vec<Client>,
}

#[async_trait]
impl Contender for Raw {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn settings(&self) -> Vec<String> {
        vec![
            "tokio-postgres, unnamed typed statements".to_owned(),
            format!(
                "drain: {WORKERS} connections, claim by UPDATE … RETURNING and complete by DELETE, batches of {BATCH}"
            ),
            format!("bulk: binary COPY; also INSERT … SELECT FROM unnest, {UNNEST_ROWS} rows a statement"),
            "pickup: insert and NOTIFY in one statement, a listening connection that claims on each wake-up"
                .to_owned(),
        ]
    }

    async fn prepare(&mut self, database_url: &str) -> Result<()> {
        database_url.clone_into(&mut self.database_url);
        self.tenant = Uuid::now_v7();
        connect(database_url).await?.batch_execute(SCHEMA).await.context("creating the raw schema")
    }

    async fn connect(&mut self) -> Result<()> {
        self.clients = try_join_all((0..SLOTS).map(|_| connect(&self.database_url))).await?;
        Ok(())
    }

    async fn disconnect(&mut self) -> Result<()> {
        self.clients.clear();
        Ok(())
    }

    async fn enqueue_one(&self, slot: usize, payload: &Payload) -> Result<()> {
        self.insert(slot, INSERT, payload).await
    }

    fn bulk_methods(&self) -> &'static [&'static str] {
        &[COPY, UNNEST]
    }

    async fn enqueue_bulk(&self, bulk: Bulk<'_>) -> Result<()> {
        match bulk.method {
            UNNEST => self.insert_unnest(bulk).await,
            _ => self.copy(bulk).await,
        }
    }

    async fn drain(&self, jobs: usize) -> Result<Duration> {
        let start = Instant::now();
        let finished = try_join_all(self.clients[..WORKERS].iter().map(drain_on)).await?;
        let elapsed = start.elapsed();
        let finished: usize = finished.into_iter().sum();
        ensure!(finished == jobs, "raw finished {finished} of {jobs} jobs");
        Ok(elapsed)
    }

    async fn pickup(&self, plan: &PickupPlan) -> Result<Vec<Duration>> {
        let recorder = Recorder::new(plan);
        let (client, mut woken) = connect_listening(&self.database_url).await?;
        client.batch_execute("listen raw_jobs").await?;
        let worker = tokio::spawn({
            let recorder = Arc::clone(&recorder);
            async move {
                while woken.recv().await.is_some() {
                    run_waiting(&client, &recorder).await?;
                }
                anyhow::Ok(())
            }
        });
        let latencies =
            pace(plan, &recorder, |payload| async move { self.insert(0, INSERT_AND_NOTIFY, &payload).await })
                .await;
        worker.abort();
        latencies
    }

    fn relations(&self) -> &'static str {
        "raw"
    }
}

impl Raw {
    async fn insert(&self, slot: usize, statement: &str, payload: &Payload) -> Result<()> {
        let id = Uuid::now_v7();
        let client = &self.clients[slot];
        client
            .execute_typed(
                statement,
                &[
                    (&id, Type::UUID),
                    (&self.tenant, Type::UUID),
                    (&QUEUE, Type::TEXT),
                    (&TYPE, Type::TEXT),
                    (&Json(&payload.text), Type::JSONB),
                ],
            )
            .await
            .context("inserting a raw job")?;
        Ok(())
    }

    async fn copy(&self, bulk: Bulk<'_>) -> Result<()> {
        let statement = "copy raw.jobs (id, tenant_id, queue, type, payload) from stdin binary";
        let sink = self.clients[0].copy_in(statement).await?;
        let types = [Type::UUID, Type::UUID, Type::TEXT, Type::TEXT, Type::JSONB];
        let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, &types));
        let payload = Json(&bulk.payload.text);
        for _ in 0..bulk.jobs {
            writer.as_mut().write(&[&Uuid::now_v7(), &self.tenant, &QUEUE, &TYPE, &payload]).await?;
        }
        writer.finish().await.context("copying raw jobs")?;
        Ok(())
    }

    async fn insert_unnest(&self, bulk: Bulk<'_>) -> Result<()> {
        let mut left = bulk.jobs;
        while left > 0 {
            let rows = left.min(UNNEST_ROWS);
            let ids: Vec<Uuid> = (0..rows).map(|_| Uuid::now_v7()).collect();
            let payloads = vec![Json(&bulk.payload.text); rows];
            self.clients[0]
                .execute_typed(
                    INSERT_UNNEST,
                    &[
                        (&ids, Type::UUID_ARRAY),
                        (&self.tenant, Type::UUID),
                        (&QUEUE, Type::TEXT),
                        (&TYPE, Type::TEXT),
                        (&payloads, Type::JSONB_ARRAY),
                    ],
                )
                .await
                .context("inserting raw jobs by unnest")?;
            left -= rows;
        }
        Ok(())
    }
}

/// Claims and completes until nothing is left to claim.
async fn drain_on(client: &Client) -> Result<usize> {
    let mut finished = 0;
    loop {
        let jobs = claim(client).await?;
        if jobs.is_empty() {
            return Ok(finished);
        }
        complete(client, &jobs).await?;
        finished += jobs.len();
    }
}

/// Starts the handlers of what waits, then completes it.
async fn run_waiting(client: &Client, recorder: &Recorder) -> Result<()> {
    #[derive(Deserialize)]
    struct Stamped {
        stamp_ns: u64,
    }
    loop {
        let jobs = claim(client).await?;
        if jobs.is_empty() {
            return Ok(());
        }
        for job in &jobs {
            let Json(stamped): Json<Stamped> = job.get("payload");
            recorder.handler_started(stamped.stamp_ns);
        }
        complete(client, &jobs).await?;
    }
}

async fn claim(client: &Client) -> Result<Vec<Row>> {
    client
        .query_typed(CLAIM, &[(&QUEUE, Type::TEXT), (&BATCH, Type::INT8)])
        .await
        .context("claiming raw jobs")
}

async fn complete(client: &Client, jobs: &[Row]) -> Result<()> {
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.get("id")).collect();
    let deleted =
        client.execute_typed(COMPLETE, &[(&ids, Type::UUID_ARRAY)]).await.context("completing raw jobs")?;
    ensure!(
        deleted == jobs.len() as u64,
        "{deleted} of {} claimed raw jobs were there to complete",
        jobs.len()
    );
    Ok(())
}
