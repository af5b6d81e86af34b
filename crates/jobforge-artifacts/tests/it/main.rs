//! Large payloads and results on a directory, on an S3-compatible server, and on stores that fail.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod bucket;
mod collecting;
mod directory;
mod failing;
mod server;
mod travelling;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobforge_artifacts::{ArtifactStore, Limits, Place, enqueue_job};
use jobforge_core::{Job, NewJob, rpc};
use jobforge_testkit::{NOOP, TENANT_A, TestDb, WORKER};
use jobforge_worker::{Context, HandlerResult, Outcome, Worker, WorkerConfig, WorkerHandle};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Quick to give up, for stores that fail.
fn limits() -> Limits {
    Limits { timeout: Duration::from_secs(10), retries: 1, ..Limits::default() }
}

fn in_directory(dir: &Path) -> Arc<ArtifactStore> {
    Arc::new(ArtifactStore::open(&Place::Directory(dir.join("artifacts")), limits()).unwrap())
}

/// JSON of about this many bytes, in which no part is like another.
fn large(bytes: usize) -> Value {
    (0..bytes / 8).map(|n| format!("{n:05}")).collect::<Vec<_>>().into()
}

/// A database with an application that enqueues and a worker that echoes.
struct Story {
    db: TestDb,
    app: Client,
}

impl Story {
    async fn begin() -> Story {
        let db = TestDb::new().await;
        let app = db.as_app().await;
        Story { db, app }
    }

    async fn enqueue(&mut self, store: &ArtifactStore, payload: &Value) -> Uuid {
        let job = NewJob::new(NOOP, payload).unwrap();
        enqueue_job(&mut self.app, store, TENANT_A, job).await.unwrap().id
    }

    async fn work(&self, store: Option<Arc<ArtifactStore>>) -> WorkerHandle {
        let config = WorkerConfig {
            database_url: self.db.url_as(WORKER, None),
            slots: 2,
            artifacts: store.map(|store| store as _),
            ..WorkerConfig::default()
        };
        Worker::builder(config).handle(NOOP, echo).build().unwrap().start().await.unwrap()
    }

    async fn job(&self, id: Uuid) -> Job {
        rpc::get_job(&self.app, TENANT_A, id).await.unwrap()
    }

    /// The job once this holds.
    async fn until(&self, id: Uuid, holds: impl Fn(&Job) -> bool) -> Job {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let job = self.job(id).await;
            if holds(&job) {
                return job;
            }
            assert!(Instant::now() < deadline, "did not come to pass; the job is {job:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn echo(_: Context, payload: Value) -> HandlerResult {
    Ok(Outcome::complete(&payload)?)
}

/// Returns once this holds; fails the test if it does not in a minute.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "did not come to pass: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
