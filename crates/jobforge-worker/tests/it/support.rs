//! What the stories share: a database with an application, an operator and workers on it.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use jobforge_core::{Attempt, Definition, Job, NewJob, rpc};
use jobforge_testkit::{FaultPoints, NOOP, PASSWORD, TENANT_A, TestDb, WORKER};
use jobforge_worker::{Context, Faults, HandlerResult, Outcome, Worker, WorkerConfig, WorkerHandle};
use serde_json::{Value, json};
use tokio_postgres::Client;
use tracing_subscriber::fmt::MakeWriter;
use uuid::Uuid;

/// Generous, because it only passes when a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Story {
    pub(crate) db: TestDb,
    pub(crate) app: Client,
    pub(crate) operator: Client,
}

impl Story {
    pub(crate) async fn begin() -> Story {
        // What the worker complained about is shown with a story that fails.
        let _ =
            tracing_subscriber::fmt().with_test_writer().with_env_filter("jobforge_worker=debug").try_init();
        let db = TestDb::new().await;
        let (app, operator) = (db.as_app().await, db.as_operator().await);
        Story { db, app, operator }
    }

    /// A worker's settings over the socket, with leases short enough to be seen ending.
    pub(crate) fn config(&self) -> WorkerConfig {
        WorkerConfig {
            database_url: self.db.url_as(WORKER, None),
            slots: 4,
            stop_grace: Duration::from_millis(100),
            call_timeout: Duration::from_secs(3),
            ..WorkerConfig::default()
        }
    }

    /// The worker's URL over TCP, for a proxy to stand in its way.
    pub(crate) fn tcp_url(&self) -> String {
        self.db.url_as(WORKER, Some(PASSWORD))
    }

    pub(crate) async fn define(&self, change: impl FnOnce(&mut Definition)) {
        let mut definition = Definition::new(NOOP);
        change(&mut definition);
        rpc::upsert_definition(&self.operator, &definition).await.unwrap();
    }

    pub(crate) async fn enqueue(&self, payload: Value) -> Uuid {
        self.enqueue_job(NewJob::new(NOOP, &payload).unwrap()).await
    }

    pub(crate) async fn enqueue_job(&self, job: NewJob) -> Uuid {
        rpc::enqueue_job(&self.app, TENANT_A, &job).await.unwrap().id
    }

    /// Jobs with the payloads 0, 1, 2, …
    pub(crate) async fn enqueue_numbers(&self, count: usize) -> Vec<Uuid> {
        let jobs: Vec<NewJob> = (0..count).map(|n| NewJob::new(NOOP, &n).unwrap()).collect();
        let enqueued = rpc::enqueue_jobs(&self.app, TENANT_A, &jobs).await.unwrap();
        enqueued.into_iter().map(|job| job.unwrap().id).collect()
    }

    pub(crate) async fn job(&self, id: Uuid) -> Job {
        rpc::get_job(&self.app, TENANT_A, id).await.unwrap()
    }

    pub(crate) async fn attempts(&self, id: Uuid) -> Vec<Attempt> {
        rpc::list_attempts(&self.app, TENANT_A, id).await.unwrap()
    }

    /// The job once it has this status.
    pub(crate) async fn until(&self, id: Uuid, status: &str) -> Job {
        eventually(&format!("the job is {status}"), async || {
            let job = self.job(id).await;
            (job.status == status).then_some(job)
        })
        .await
    }

    /// One number out of the database, seen from above.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.db.connect_super().await.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Takes back expired leases, as the scheduler does.
    pub(crate) async fn reap(&self) -> jobforge_core::Reaped {
        let leadership = rpc::lead(&self.operator, "story", 60).await.unwrap();
        rpc::reap(&self.operator, leadership.term, 100).await.unwrap()
    }

    /// A worker whose handler is this.
    pub(crate) async fn work<F, W>(&self, config: WorkerConfig, handler: F) -> WorkerHandle
    where
        F: Fn(Context, Value) -> W + Send + Sync + 'static,
        W: Future<Output = HandlerResult> + Send + 'static,
    {
        Worker::builder(config).handle(NOOP, handler).build().unwrap().start().await.unwrap()
    }
}

/// Ends well with what it was given.
pub(crate) async fn echo(_: Context, payload: Value) -> HandlerResult {
    Ok(Outcome::complete(&json!({ "echo": payload }))?)
}

/// Asks again and again until the answer is there.
pub(crate) async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A worker that can be held at its named points.
pub(crate) fn faults(points: &FaultPoints) -> Faults {
    let points = points.clone();
    Faults::at_points(Arc::new(move |point| {
        let points = points.clone();
        async move {
            let _ = points.hit(point).await;
        }
        .boxed()
    }))
}

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Before the story begins, which else logs for itself.
    pub(crate) fn capture() -> Lines {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer);
        subscriber.with_env_filter("jobforge_worker=debug").init();
        lines
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    pub(crate) fn count(&self, level: &str, message: &str) -> usize {
        self.text().lines().filter(|line| line.contains(level) && line.contains(message)).count()
    }
}

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}
