//! JobForge as its users have it: its login roles, its functions, row-level security, fences, history and fairness
//! on, the worker at its default settings.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ::jobforge_server::ServerConfig;
use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt};
use jobforge_core::{Definition, KeyScope, NewJob, Tenant, migrate, rpc};
use jobforge_worker::{Context as JobContext, Outcome, Worker, WorkerConfig};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{Json, Type};
use url::Url;
use uuid::Uuid;

use super::{Bulk, Contender, SLOTS, jobforge_server};
use crate::connection::connect;
use crate::http::{self, Served, TENANTS};
use crate::metric::BARE_COPY;
use crate::payload::Payload;
use crate::pickup::{PickupPlan, Recorder, pace};

/// The type of every job the worker runs.
pub const TYPE: &str = "bench.noop";
const BULK_ROWS: usize = 1_000;
const PIPELINED: usize = 2;
/// How often the end of the drain is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
const ENQUEUE_JOBS: &str = "enqueue_jobs";
const PRODUCER: &str = "jf_bench_producer";
const WORKER: &str = "jf_bench_worker";
const OPERATOR: &str = "jf_bench_operator";

/// Roles are cluster-wide while every pass has its own database: they may be there already.
const LOGINS: &str = "
do $$
declare
  v_login text[];
begin
  foreach v_login slice 1 in array array[['jf_bench_producer', 'jf_tenant'], ['jf_bench_worker', 'jf_worker'],
      ['jf_bench_operator', 'jf_operator']] loop
    if not exists (select from pg_roles where rolname = v_login[1]) then
      execute format('create role %I login', v_login[1]);
    end if;
    execute format('grant %I to %I', v_login[2], v_login[1]);
    perform jobforge.bind_login(v_login[1]);
  end loop;
end
$$";

/// See the module's head.
#[derive(Default)]
pub struct JobForge {
    database_url: String,
    tenant: Uuid,
    producers: Vec<Client>,
    admin: Option<Client>,
}

#[async_trait]
impl Contender for JobForge {
    fn name(&self) -> &'static str {
        "jobforge"
    }

    fn settings(&self) -> Vec<String> {
        let worker = WorkerConfig::default();
        vec![
            format!("producer as login {PRODUCER}, worker as login {WORKER}, row-level security on"),
            format!(
                "worker at its defaults: {} slots, claims of at most {}, reports of at most {}, lease {} s",
                worker.slots, worker.claim_max, worker.report_group, worker.lease_seconds
            ),
            format!(
                "bulk: enqueue_jobs, {BULK_ROWS} rows a call, {PIPELINED} calls under way on one connection"
            ),
            "finished jobs kept in job_history".to_owned(),
            "pickup: the enqueue is prepared once, on the producer's connection".to_owned(),
            format!(
                "HTTP: one server in this process at its defaults ({} connections a login), {TENANTS} tenants, a key each",
                ServerConfig::new("", "").connections
            ),
        ]
    }

    async fn prepare(&mut self, database_url: &str) -> Result<()> {
        database_url.clone_into(&mut self.database_url);
        self.tenant = Uuid::now_v7();
        migrate::up(database_url).await.context("migrating")?;
        let admin = connect(database_url).await?;
        admin.batch_execute(LOGINS).await.context("making the logins")?;
        rpc::upsert_tenant(&admin, &Tenant::named(self.tenant, "bench")).await?;
        rpc::upsert_definition(&admin, &Definition { key: TYPE.to_owned(), ..Definition::default() }).await?;
        let leader = rpc::lead(&admin, "bench", 600).await?;
        rpc::upkeep_partitions(&admin, leader.term, 1000).await?;
        Ok(())
    }

    async fn connect(&mut self) -> Result<()> {
        let url = self.url_as(PRODUCER)?;
        self.producers = try_join_all((0..SLOTS).map(|_| connect(&url))).await?;
        self.admin = Some(connect(&self.database_url).await?);
        Ok(())
    }

    async fn disconnect(&mut self) -> Result<()> {
        self.producers.clear();
        self.admin = None;
        Ok(())
    }

    async fn enqueue_one(&self, slot: usize, payload: &Payload) -> Result<()> {
        rpc::enqueue_job(&self.producers[slot], self.tenant, &job(payload)).await?;
        Ok(())
    }

    async fn serve(&self, gather: bool) -> Result<Option<Served>> {
        let logins = [self.url_as(PRODUCER)?, self.operator_url()?];
        jobforge_server::serve(logins, gather).await.map(Some)
    }

    fn bulk_methods(&self) -> &'static [&'static str] {
        &[ENQUEUE_JOBS, BARE_COPY]
    }

    async fn enqueue_bulk(&self, bulk: Bulk<'_>) -> Result<()> {
        if bulk.method == BARE_COPY {
            return self.bare_copy(bulk).await;
        }
        let jobs = vec![job(bulk.payload); BULK_ROWS.min(bulk.jobs)];
        let sizes = (0..bulk.jobs).step_by(jobs.len()).map(|at| jobs.len().min(bulk.jobs - at));
        // Pipelined: the next batch is on its way while the server works on this one.
        let calls = sizes.map(|rows| rpc::enqueue_jobs(&self.producers[0], self.tenant, &jobs[..rows]));
        let mut answers = stream::iter(calls).buffered(PIPELINED);
        while let Some(answers) = answers.next().await {
            ensure!(answers?.iter().all(Result::is_ok), "a job of the batch was refused");
        }
        Ok(())
    }

    async fn drain(&self, jobs: usize) -> Result<Duration> {
        let ran = Arc::new(Ran { left: AtomicUsize::new(jobs), all: Notify::new() });
        let counted = Arc::clone(&ran);
        let worker = Worker::builder(self.worker_config()?)
            .handle(TYPE, move |_: JobContext, _: IgnoredAny| {
                counted.one();
                async { Ok(Outcome::done()) }
            })
            .build()?;
        let running = worker.start().await?;
        // From here on it claims, on the connection it registered on; the others it opens within the measured time.
        let start = Instant::now();
        ran.all.notified().await;
        // The drain ends when everything is durably reported, not when the last handler ran.
        while running.stats().completed < jobs as u64 {
            sleep(LOOK_INTERVAL).await;
        }
        let elapsed = start.elapsed();
        running.shutdown().await;
        let stats = running.stats();
        ensure!(stats.completed == jobs as u64, "jobforge completed {} of {jobs} jobs", stats.completed);
        Ok(elapsed)
    }

    async fn pickup(&self, plan: &PickupPlan) -> Result<Vec<Duration>> {
        #[derive(Deserialize)]
        struct Stamped {
            stamp_ns: u64,
        }
        let recorder = Recorder::new(plan);
        let started = Arc::clone(&recorder);
        let worker = Worker::builder(self.worker_config()?)
            .handle(TYPE, move |_: JobContext, stamped: Stamped| {
                started.handler_started(stamped.stamp_ns);
                async { Ok(Outcome::done()) }
            })
            .build()?;
        let running = worker.start().await?;
        let producer = self.producer()?;
        let prepared = rpc::prepare_enqueue(producer).await?;
        let latencies = pace(plan, &recorder, |payload| {
            let prepared = &prepared;
            async move {
                rpc::enqueue_prepared(producer, prepared, self.tenant, &job(&payload)).await?;
                Ok(())
            }
        })
        .await;
        running.shutdown().await;
        latencies
    }

    fn relations(&self) -> &'static str {
        "jobforge"
    }
}

impl JobForge {
    /// Somebody who may look at what the tenant has, through this server.
    pub async fn browser(&self, served: &Served) -> Result<http::Client> {
        let operator = connect(&self.operator_url()?).await?;
        let key = jobforge_server::key(&operator, KeyScope::TenantViewer(self.tenant)).await?;
        http::Client::connect(served.handle.address(), &key).await
    }

    /// The same installation in a copy of its database.
    pub fn in_copy(&self, database_url: &str) -> Self {
        Self { database_url: database_url.to_owned(), tenant: self.tenant, ..Self::default() }
    }

    /// Whose jobs the drains run.
    pub fn tenant(&self) -> Uuid {
        self.tenant
    }

    /// What enqueues, once connected; trusted to name any tenant.
    pub fn producer(&self) -> Result<&Client> {
        self.producers.first().context("not connected")
    }

    /// Where the scheduler logs in.
    pub fn operator_url(&self) -> Result<String> {
        self.url_as(OPERATOR)
    }

    /// A worker as its users have it.
    pub fn worker_config(&self) -> Result<WorkerConfig> {
        Ok(WorkerConfig { database_url: self.url_as(WORKER)?, ..WorkerConfig::default() })
    }

    fn url_as(&self, login: &str) -> Result<String> {
        let mut url = Url::parse(&self.database_url)?;
        url.set_username(login).ok().context("the database's URL takes no user")?;
        Ok(url.into())
    }

    async fn bare_copy(&self, bulk: Bulk<'_>) -> Result<()> {
        let statement =
            "copy jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status,
            retention, queue, type, payload, source) from stdin binary";
        let sink = self.admin.as_ref().context("connected")?.copy_in(statement).await?;
        let types = [
            Type::UUID,
            Type::UUID,
            Type::TIMESTAMPTZ,
            Type::TIMESTAMPTZ,
            Type::INT2,
            Type::INT2,
            Type::BOOL,
            Type::TEXT,
            Type::TEXT,
            Type::TEXT,
            Type::TEXT,
            Type::JSONB,
            Type::TEXT,
        ];
        let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
        let (now, payload) = (SystemTime::now(), Json(&bulk.payload.text));
        for _ in 0..bulk.jobs {
            let id = Uuid::now_v7();
            writer
                .as_mut()
                .write(&[
                    &self.tenant,
                    &id,
                    &now,
                    &now,
                    &5_i16,
                    &100_i16,
                    &true,
                    &"queued",
                    &"week",
                    &"default",
                    &TYPE,
                    &payload,
                    &"manual",
                ])
                .await?;
        }
        writer.finish().await.context("copying jobs")?;
        Ok(())
    }
}

/// Counts handlers down to the last.
struct Ran {
    left: AtomicUsize,
    all: Notify,
}

impl Ran {
    fn one(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all.notify_one();
        }
    }
}

/// A job with that payload and nothing else asked for.
pub fn job(payload: &Payload) -> NewJob {
    NewJob::new(TYPE, &payload.text).expect("a payload that is JSON already")
}
