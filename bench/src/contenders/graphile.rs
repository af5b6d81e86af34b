//! `graphile_worker` (the Rust crate) at its best: local queues and batched completion on, and for each piece of work
//! whichever of its two drivers does it faster. The README says where each setting comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use graphile_worker::tokio_postgres::TokioPostgresDatabase;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker, WorkerContext,
    WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection};
use tokio::sync::{Mutex, Notify};
use tokio::time::sleep;

use super::{Bulk, Contender, SLOTS};
use crate::payload::Payload;
use crate::pickup::{PickupPlan, Recorder, pace};

const SCHEMA: &str = "graphile_worker";
const CONCURRENCY: usize = 500;
const LOCAL_QUEUES: usize = 2;
const LOCAL_QUEUE_SIZE: usize = 2_500;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const COMPLETION_DELAY: Duration = Duration::from_millis(5);
const POOL: u32 = 100;
/// How often the end of the drain is looked for: well under a percent of it, yet no load.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
const BULK: &str = "add_raw_jobs";
const BULK_ROWS: usize = 2_000;

/// See the module's head.
#[derive(Default)]
pub struct Graphile {
    database_url: String,
    connections: Option<Connections>,
}

/// sqlx keeps statements prepared, which wins for single calls; tokio-postgres moves less per row, which wins for
/// large ones.
struct Connections {
    slots: Vec<Mutex<PgConnection>>,
    sqlx: PgPool,
    tokio_postgres: TokioPostgresDatabase,
}

#[async_trait]
impl Contender for Graphile {
    fn name(&self) -> &'static str {
        "graphile"
    }

    fn settings(&self) -> Vec<String> {
        vec![
            "graphile_worker 0.14.1".to_owned(),
            "one by one: add_raw_job on a held connection, sqlx driver (prepared statements)".to_owned(),
            format!("bulk: add_raw_jobs, {BULK_ROWS} jobs a call, tokio-postgres driver"),
            format!(
                "drain: concurrency {CONCURRENCY}, {LOCAL_QUEUES} local queues of {LOCAL_QUEUE_SIZE}, poll {} ms, \
                 completions batched for {} ms, tokio-postgres driver, pool of {POOL}",
                POLL_INTERVAL.as_millis(),
                COMPLETION_DELAY.as_millis()
            ),
            "pickup: WorkerOptions::default(), sqlx driver without a ping before each use".to_owned(),
        ]
    }

    async fn prepare(&mut self, database_url: &str) -> Result<()> {
        database_url.clone_into(&mut self.database_url);
        let pool = PgPool::connect(database_url).await?;
        WorkerUtils::new(&pool, SCHEMA).migrate().await.context("migrating graphile_worker's schema")?;
        pool.close().await;
        Ok(())
    }

    async fn connect(&mut self) -> Result<()> {
        let url = &self.database_url;
        let slots = try_join_all((0..SLOTS).map(|_| PgConnection::connect(url))).await?;
        let tokio_postgres = TokioPostgresDatabase::from_url(url, POOL as usize)?;
        // Opened up front, as every contender's are: a pool that grows inside the measurement would be charged for it.
        try_join_all((0..SLOTS).map(|_| tokio_postgres.pool().get())).await?;
        self.connections = Some(Connections {
            slots: slots.into_iter().map(Mutex::new).collect(),
            sqlx: PgPoolOptions::new().max_connections(POOL).test_before_acquire(false).connect(url).await?,
            tokio_postgres,
        });
        Ok(())
    }

    async fn disconnect(&mut self) -> Result<()> {
        if let Some(connections) = self.connections.take() {
            connections.sqlx.close().await;
            connections.tokio_postgres.pool().close();
            for slot in connections.slots {
                slot.into_inner().close().await?;
            }
        }
        Ok(())
    }

    async fn enqueue_one(&self, slot: usize, payload: &Payload) -> Result<()> {
        let connections = self.connections()?;
        let mut connection = connections.slots[slot].lock().await;
        WorkerUtils::new(&connections.sqlx, SCHEMA)
            .with_executor(&mut *connection)
            .add_raw_job(BenchJob::IDENTIFIER, &payload.value, JobSpec::default())
            .await?;
        Ok(())
    }

    fn bulk_methods(&self) -> &'static [&'static str] {
        &[BULK]
    }

    async fn enqueue_bulk(&self, bulk: Bulk<'_>) -> Result<()> {
        let job = RawJobSpec {
            identifier: BenchJob::IDENTIFIER.to_owned(),
            payload: bulk.payload.value.clone(),
            spec: JobSpec::default(),
        };
        let utils = WorkerUtils::new(self.connections()?.tokio_postgres.clone(), SCHEMA);
        let mut left = bulk.jobs;
        while left > 0 {
            let rows = left.min(BULK_ROWS);
            utils.add_raw_jobs(&vec![job.clone(); rows]).await?;
            left -= rows;
        }
        Ok(())
    }

    async fn drain(&self, jobs: usize) -> Result<Duration> {
        let counter = Arc::new(Counter { expected: jobs, run: AtomicUsize::new(0), all_run: Notify::new() });
        let local_queue =
            LocalQueueConfig::default().with_size(LOCAL_QUEUE_SIZE).with_queue_count(LOCAL_QUEUES);
        let options = WorkerOptions::default()
            .database(self.connections()?.tokio_postgres.clone())
            .concurrency(CONCURRENCY)
            .poll_interval(POLL_INTERVAL)
            .complete_job_batch_delay(COMPLETION_DELAY)
            .local_queue(local_queue);
        let worker = start(options, Handler::Drain(Arc::clone(&counter))).await?;
        let begun = Instant::now();
        let running = run(&worker);
        counter.all_run.notified().await;
        let elapsed = self.wait_until_empty().await? - begun;
        worker.request_shutdown();
        running.await??;
        let run = counter.run.load(Ordering::Relaxed);
        ensure!(run == jobs, "graphile ran {run} handlers for {jobs} jobs");
        Ok(elapsed)
    }

    async fn pickup(&self, plan: &PickupPlan) -> Result<Vec<Duration>> {
        let recorder = Recorder::new(plan);
        let options = WorkerOptions::default().pg_pool(self.connections()?.sqlx.clone());
        let worker = start(options, Handler::Pickup(Arc::clone(&recorder))).await?;
        let running = run(&worker);
        let latencies =
            pace(plan, &recorder, |payload| async move { self.enqueue_one(0, &payload).await }).await;
        worker.request_shutdown();
        running.await??;
        latencies
    }

    fn relations(&self) -> &'static str {
        SCHEMA
    }
}

impl Graphile {
    fn connections(&self) -> Result<&Connections> {
        self.connections.as_ref().context("graphile is not connected")
    }

    /// The moment at which the last completion was seen to be there.
    ///
    /// Shutting the worker down at once would not do: it would complete what is still to be batched job by job.
    /// Looking from the newest job backwards meets one that is left at once; only the look that finds none walks
    /// over all the deleted ones, and its own time does not count.
    async fn wait_until_empty(&self) -> Result<Instant> {
        loop {
            let asked = Instant::now();
            let left: Option<i64> =
                sqlx::query_scalar("select id from graphile_worker._private_jobs order by id desc limit 1")
                    .fetch_optional(&self.connections()?.sqlx)
                    .await?;
            if left.is_none() {
                return Ok(asked);
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

async fn start(options: WorkerOptions, handler: Handler) -> Result<Arc<Worker>> {
    let options = options.schema(SCHEMA).listen_os_shutdown_signals(false);
    Ok(Arc::new(options.define_job::<BenchJob>().add_extension(handler).init().await?))
}

fn run(worker: &Arc<Worker>) -> tokio::task::JoinHandle<Result<()>> {
    let worker = Arc::clone(worker);
    tokio::spawn(async move { Ok(worker.run().await?) })
}

/// The one task: it does nothing but say that it has started.
#[derive(Serialize, Deserialize)]
struct BenchJob {
    #[serde(default)]
    stamp_ns: u64,
}

/// Whom a started handler tells.
#[derive(Clone, Debug)]
enum Handler {
    Drain(Arc<Counter>),
    Pickup(Arc<Recorder>),
}

#[derive(Debug)]
struct Counter {
    expected: usize,
    run: AtomicUsize,
    all_run: Notify,
}

impl TaskHandler for BenchJob {
    const IDENTIFIER: &'static str = "bench_noop";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        match context.get_ext::<Handler>() {
            Some(Handler::Drain(counter)) => {
                if counter.run.fetch_add(1, Ordering::Relaxed) + 1 == counter.expected {
                    counter.all_run.notify_one();
                }
            }
            Some(Handler::Pickup(recorder)) => recorder.handler_started(self.stamp_ns),
            None => return Err("the bench's worker has no handler".to_owned()),
        }
        Ok(())
    }
}
