//! A scheduler of which a part is gone ends as a whole, so that another one takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobforge_scheduler::{Faults, SchedulerConfig, SchedulerHandle};
use jobforge_testkit::TestDb;
use tokio::time::timeout;

use crate::{PATIENCE, config, leads, start, until};

/// A scheduler of which a part panics when it comes by this point for the second time.
async fn broken_at(db: &TestDb, point: &'static str) -> SchedulerHandle {
    let hits = AtomicUsize::new(0);
    let hook = move |hit| {
        assert!(hit != point || hits.fetch_add(1, Ordering::Relaxed) == 0, "made to panic");
    };
    let faults = Faults::at_points(Arc::new(hook));
    // A term that would outlast the test: only who gives it up makes room for another.
    start(SchedulerConfig { faults, lead_seconds: 600, ..config(db, "broken") }).await
}

#[tokio::test]
async fn a_leader_whose_duties_are_gone_ends_and_makes_room_for_another() {
    let db = TestDb::new().await;
    let broken = broken_at(&db, "duty").await;
    timeout(PATIENCE, broken.ended()).await.unwrap();
    assert!(!leads(&broken));
    let next = start(config(&db, "next")).await;
    until("another one leads", async || leads(&next)).await;
    next.shutdown().await;
    timeout(PATIENCE, broken.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_scheduler_that_asks_for_no_leadership_any_more_ends() {
    let db = TestDb::new().await;
    let broken = broken_at(&db, "lead").await;
    timeout(PATIENCE, broken.ended()).await.unwrap();
    assert!(!leads(&broken), "nobody keeps its term");
}
