//! Schedulers on a real Postgres: who leads, what a leader does, and what one does that no longer leads.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod duties;
mod leadership;

use std::time::Duration;

use jobforge_scheduler::{Role, Scheduler, SchedulerConfig, SchedulerHandle};
use jobforge_testkit::{OPERATOR, PASSWORD, TestDb};
use tokio::time::{Instant, sleep};

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
