//! What a job ends with when its content is not to be had: for good, or for now.

use std::fs;
use std::path::Path;

use jobforge_core::{Job, NewJob, rpc};
use jobforge_testkit::{NOOP, TENANT_A, TENANT_B};
use uuid::Uuid;

use crate::server::{Moody, store_at};
use crate::{Story, in_directory, large, until};

/// Every object below a directory.
fn objects(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { objects(&path) } else { vec![path] }).collect()
}

async fn assert_fails(story: &Story, id: Uuid, reason: &str) -> Job {
    let job = story.until(id, |job| job.finished_at.is_some()).await;
    let error = job.error.clone().unwrap_or_default();
    assert!(job.status == "failed" && error.contains(reason), "{}: {error}", job.status);
    job
}

#[tokio::test]
async fn a_missing_or_altered_payload_fails_the_job_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let mut story = Story::begin().await;
    let altered = story.enqueue(&store, &large(300_000)).await;
    fs::write(&objects(dir.path())[0], "altered").unwrap();
    let worker = story.work(Some(store.clone())).await;
    assert_fails(&story, altered, "(JF003 artifact_altered)").await;
    fs::remove_file(&objects(dir.path())[0]).unwrap();
    rpc::retry_job(&story.app, TENANT_A, altered).await.unwrap();
    assert_fails(&story, altered, "(JF003 artifact_missing)").await;
    worker.shutdown().await;
}

#[tokio::test]
async fn another_tenants_content_is_not_to_be_had_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let mut story = Story::begin().await;
    let of_a = story.enqueue(&store, &large(300_000)).await;
    let payload = story.job(of_a).await.payload;
    let of_b = rpc::enqueue_job(&story.app, TENANT_B, &NewJob::raw(NOOP, payload)).await.unwrap().id;
    let worker = story.work(Some(store)).await;
    story.until(of_a, |job| job.status == "succeeded").await;
    let foreign = async || rpc::get_job(&story.app, TENANT_B, of_b).await.unwrap();
    until("the other job is over", async || foreign().await.finished_at.is_some()).await;
    let error = foreign().await.error.unwrap_or_default();
    assert!(error.contains("artifact_missing"), "{error}");
    worker.shutdown().await;
}

#[tokio::test]
async fn a_store_that_is_away_is_waited_for() {
    let moody = Moody::start().await;
    let store = store_at(moody.port);
    let mut story = Story::begin().await;
    let id = story.enqueue(&store, &large(300_000)).await;
    moody.set_broken(true);
    let worker = story.work(Some(store)).await;
    let waiting = story.until(id, |job| job.failures == 1).await;
    assert_eq!(waiting.status, "queued", "a retry, no end");
    assert!(waiting.error.unwrap_or_default().contains("artifact_unavailable"));
    moody.set_broken(false);
    rpc::retry_job(&story.app, TENANT_A, id).await.unwrap();
    story.until(id, |job| job.status == "succeeded").await;
    worker.shutdown().await;
}

#[tokio::test]
async fn a_worker_without_a_store_leaves_the_job_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let mut story = Story::begin().await;
    let id = story.enqueue(&store, &large(300_000)).await;
    let without = story.work(None).await;
    let waiting = story.until(id, |job| job.failures == 1).await;
    assert!(waiting.status == "queued" && waiting.error.unwrap_or_default().contains("artifact store"));
    without.shutdown().await;
    let with = story.work(Some(store)).await;
    rpc::retry_job(&story.app, TENANT_A, id).await.unwrap();
    story.until(id, |job| job.status == "succeeded").await;
    with.shutdown().await;
}
