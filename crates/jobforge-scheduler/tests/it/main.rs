//! Schedulers on a real Postgres: who leads, what a leader does, and what one does that no longer leads.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod duties;
mod hanging_store;
mod leadership;
mod parts;

use std::time::Duration;

use jobforge_core::rpc::register_worker;
use jobforge_core::{ClaimRequest, Cursor, Registration};
use jobforge_scheduler::{Role, Scheduler, SchedulerConfig, SchedulerHandle};
use jobforge_testkit::{NOOP, OPERATOR, OTHER, PASSWORD, QUEUE, TestDb};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Quick enough for a test, in the proportions of the defaults.
fn config(db: &TestDb, holder: &str) -> SchedulerConfig {
    SchedulerConfig {
        database_url: db.url_as(OPERATOR, Some(PASSWORD)),
        holder: holder.to_owned(),
        lead_every: Duration::from_millis(100),
        lead_seconds: 2,
        reap_at_least_every: Duration::from_millis(500),
        ..SchedulerConfig::default()
    }
}

async fn start(config: SchedulerConfig) -> SchedulerHandle {
    Scheduler::start(config).await.unwrap()
}

fn leads(handle: &SchedulerHandle) -> bool {
    matches!(handle.role(), Role::Leader { .. })
}

/// Returns once this holds; fails the test if it does not in a minute.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "did not come to pass: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A worker as the database knows it, which claims one job and is not heard of again.
struct Claims {
    worker_id: String,
    queues: Vec<String>,
    types: Vec<String>,
    cursor: Cursor,
}

impl Claims {
    fn of(worker_id: &str) -> Claims {
        Claims {
            worker_id: worker_id.to_owned(),
            queues: vec![QUEUE.to_owned()],
            types: vec![NOOP.to_owned(), OTHER.to_owned()],
            cursor: Cursor::default(),
        }
    }

    async fn register(&self, worker: &Client) {
        let registration = Registration {
            worker_id: self.worker_id.clone(),
            host: "lost".to_owned(),
            pid: Some(1),
            version: String::new(),
            queues: self.queues.clone(),
            types: self.types.clone(),
            slots: 1,
            metadata: None,
        };
        register_worker(worker, &registration).await.unwrap();
    }

    fn request(&self, lease_seconds: i32) -> ClaimRequest<'_> {
        ClaimRequest {
            worker_id: &self.worker_id,
            queues: &self.queues,
            types: &self.types,
            limit: 1,
            free: 1,
            lease_id: None,
            new_lease_id: None,
            lease_seconds,
            window: Some(1),
            quick: false,
            cursor: &self.cursor,
        }
    }
}
