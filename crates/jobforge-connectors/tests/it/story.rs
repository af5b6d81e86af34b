//! A worker with the HTTP connectors on a database of its own, and jobs for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobforge_connectors::configs::{MemoryConfigs, Settings};
use jobforge_connectors::egress::{Egress, EgressPolicy, EgressSettings, parse_nets};
use jobforge_connectors::{connectors, register};
use jobforge_core::{Attempt, Definition, Job, NewJob, rpc};
use jobforge_testkit::{TENANT_A, TestDb, WORKER};
use jobforge_worker::{Worker, WorkerConfig, WorkerHandle};
use secrecy::SecretString;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Story {
    _db: TestDb,
    pub(crate) configs: Arc<MemoryConfigs>,
    pub(crate) app: Client,
    _worker: WorkerHandle,
}

impl Story {
    /// Everything on loopback is allowed.
    pub(crate) async fn begin() -> Story {
        Story::allowing(&["127.0.0.0/8"]).await
    }

    pub(crate) async fn allowing(allow: &[&str]) -> Story {
        let db = TestDb::new().await;
        let operator = db.as_operator().await;
        for connector in connectors() {
            // Without its schema: the handler itself must judge what it is given.
            let definition = Definition { arg_schema: None, ..connector.definition() };
            rpc::upsert_definition(&operator, &definition).await.unwrap();
        }
        let policy = EgressPolicy { allow: parse_nets(allow).unwrap(), ..EgressPolicy::default() };
        let egress = Egress::new(&EgressSettings { policy, ..EgressSettings::default() }).unwrap();
        let configs = Arc::new(MemoryConfigs::default());
        let config = WorkerConfig { database_url: db.url_as(WORKER, None), ..WorkerConfig::default() };
        let worker = register(Worker::builder(config), egress, configs.clone()).build().unwrap();
        let (worker, app) = (worker.start().await.unwrap(), db.as_app().await);
        Story { _db: db, configs, app, _worker: worker }
    }

    /// A config of the jobs' tenant.
    pub(crate) fn configure(&self, name: &str, settings: Value, secrets: &[(&str, &str)]) {
        let secrets = secrets.iter().map(|(name, secret)| ((*name).to_owned(), SecretString::from(*secret)));
        self.configs.put(TENANT_A, name, Settings { settings, secrets: secrets.collect() });
    }

    pub(crate) async fn enqueue(&self, job_type: &str, payload: &Value) -> Uuid {
        self.enqueue_job(NewJob::new(job_type, payload).unwrap()).await
    }

    pub(crate) async fn enqueue_job(&self, job: NewJob) -> Uuid {
        rpc::enqueue_job(&self.app, TENANT_A, &job).await.unwrap().id
    }

    pub(crate) async fn job(&self, id: Uuid) -> Job {
        rpc::get_job(&self.app, TENANT_A, id).await.unwrap()
    }

    pub(crate) async fn attempts(&self, id: Uuid) -> Vec<Attempt> {
        rpc::list_attempts(&self.app, TENANT_A, id).await.unwrap()
    }

    /// The job once this holds of it.
    pub(crate) async fn until(&self, id: Uuid, holds: impl Fn(&Job) -> bool) -> Job {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let job = self.job(id).await;
            if holds(&job) {
                return job;
            }
            assert!(Instant::now() < deadline, "not in time: {job:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The result of a job that must succeed.
    pub(crate) async fn succeeds(&self, job_type: &str, payload: &Value) -> Value {
        let id = self.enqueue(job_type, payload).await;
        let job = self
            .until(id, |job| ["succeeded", "failed"].contains(&job.status.as_str()) || job.failures > 0)
            .await;
        assert_eq!(job.status, "succeeded", "{job:?}");
        serde_json::from_str(job.result.unwrap().get()).unwrap()
    }

    /// The error of a job that must fail for good at its first attempt.
    pub(crate) async fn fails(&self, job_type: &str, payload: &Value) -> String {
        let id = self.enqueue(job_type, payload).await;
        let job = self.until(id, |job| job.status == "succeeded" || job.failures > 0).await;
        assert_eq!((job.status.as_str(), job.failures), ("failed", 1), "{job:?}");
        self.error(id).await
    }

    /// The error of a job that must fail and be tried again, and how long that waits.
    pub(crate) async fn retries(&self, job_type: &str, payload: &Value) -> (String, Duration) {
        let id = self.enqueue(job_type, payload).await;
        let job = self.until(id, |job| job.status == "succeeded" || job.failures > 0).await;
        assert!(["queued", "running"].contains(&job.status.as_str()), "{job:?}");
        let wait = job.run_at.duration_since(job.created_at);
        (self.error(id).await, Duration::try_from(wait).unwrap_or_default())
    }

    async fn error(&self, id: Uuid) -> String {
        self.attempts(id).await.first().and_then(|attempt| attempt.error.clone()).unwrap()
    }
}
