//! A scheduler deletes what no job holds: what was never enqueued, and what jobs left behind.

use std::sync::Arc;
use std::time::Duration;

use jobforge_artifacts::{ArtifactRef, ArtifactStore, Artifacts, Limits, stow};
use jobforge_core::NewJob;
use jobforge_scheduler::{Scheduler, SchedulerConfig, SchedulerHandle};
use jobforge_testkit::{NOOP, OPERATOR, TENANT_A};

use crate::server::{Moody, store_with};
use crate::{Story, in_directory, large, limits, until};

const DAY: f64 = 86_400.0;

async fn scheduler(story: &Story, store: Arc<ArtifactStore>) -> SchedulerHandle {
    let quick = Duration::from_millis(100);
    let config = SchedulerConfig {
        database_url: story.db.url_as(OPERATOR, None),
        holder: "collector".to_owned(),
        lead_every: quick,
        lead_seconds: 5,
        partitions_every: quick,
        prune_every: quick,
        collect_every: quick,
        artifacts: Some(store),
        ..SchedulerConfig::default()
    };
    Scheduler::start(config).await.unwrap()
}

async fn known(story: &Story) -> i64 {
    let admin = story.db.connect_super().await;
    admin.query_one("select count(*) from jobforge.artifacts", &[]).await.unwrap().get(0)
}

async fn is_there(store: &ArtifactStore, artifact: ArtifactRef) -> bool {
    store.get(TENANT_A, artifact).await.is_ok()
}

/// The producer dies between the object and the enqueue.
#[tokio::test]
async fn an_object_whose_job_was_never_enqueued_is_collected_after_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let story = Story::begin().await;
    story.db.advance_clock(0.0).await;
    let payload = large(300_000);
    let artifact = jobforge_artifacts::Artifact::of(payload.to_string()).reference();
    stow(&story.app, &*store, TENANT_A, NewJob::new(NOOP, &payload).unwrap()).await.unwrap();
    let scheduler = scheduler(&story, store.clone()).await;
    story.db.advance_clock(DAY - 10.0).await;
    scheduler.settled().await;
    assert!(is_there(&store, artifact).await);
    story.db.advance_clock(20.0).await;
    until("the orphan is gone", async || known(&story).await == 0).await;
    assert!(!is_there(&store, artifact).await);
    scheduler.shutdown().await;
}

#[tokio::test]
async fn objects_leave_with_their_job_and_a_store_that_is_away_is_asked_again() {
    let moody = Moody::start().await;
    // Without a second try: one answer of 500 is one deletion that failed.
    let store = store_with(moody.port, Limits { retries: 0, ..limits() });
    let mut story = Story::begin().await;
    story.db.advance_clock(0.0).await;
    let id = story.enqueue(&store, &large(300_000)).await;
    let worker = story.work(Some(store.clone())).await;
    let job = story.until(id, |job| job.status == "succeeded").await;
    worker.shutdown().await;
    let artifact = ArtifactRef::in_row(&job.payload).unwrap().unwrap();
    let scheduler = scheduler(&story, store.clone()).await;
    scheduler.settled().await;
    assert!(is_there(&store, artifact).await, "the job is in the history");
    moody.set_broken(true);
    story.db.advance_clock(400.0 * DAY).await;
    until("the deletion was tried", async || moody.refused() == 1).await;
    // Payload and result are the same content here: one object.
    assert_eq!(known(&story).await, 1);
    moody.set_broken(false);
    assert!(is_there(&store, artifact).await, "the store was away");
    story.db.advance_clock(301.0).await;
    until("it is forgotten", async || known(&story).await == 0).await;
    assert!(!is_there(&store, artifact).await);
    scheduler.shutdown().await;
}
