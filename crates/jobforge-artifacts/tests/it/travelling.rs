//! Five megabytes through a worker and back: the rows stay small, and the handler sees nothing of it.

use std::sync::Arc;

use jobforge_artifacts::{ArtifactRef, ArtifactStore, enqueue_job, fetch};
use jobforge_core::{Code, NewJob};
use jobforge_testkit::{NOOP, TENANT_A};
use serde_json::{Value, json};

use crate::server::{Moto, store_at};
use crate::{Story, in_directory, large};

#[tokio::test]
async fn five_megabytes_go_through_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    there_and_back(in_directory(dir.path())).await;
}

#[tokio::test]
async fn five_megabytes_go_through_a_bucket() {
    let moto = Moto::start().await;
    there_and_back(store_at(moto.port)).await;
}

async fn there_and_back(store: Arc<ArtifactStore>) {
    let mut story = Story::begin().await;
    let (much, little) = (large(5_000_000), json!({ "small": 1 }));
    let large_id = story.enqueue(&store, &much).await;
    let small_id = story.enqueue(&store, &little).await;
    let worker = story.work(Some(store.clone())).await;
    for (id, payload) in [(large_id, much), (small_id, little)] {
        let job = story.until(id, |job| job.finished_at.is_some()).await;
        assert_eq!(job.status, "succeeded", "{:?}", job.error);
        assert_eq!(ArtifactRef::in_row(&job.payload).unwrap().is_some(), id == large_id);
        assert!(job.payload.get().len() < 200, "the row is small");
        let result = fetch(&*store, TENANT_A, job.result.unwrap()).await.unwrap();
        assert!(serde_json::from_str::<Value>(result.get()).unwrap() == payload, "the result is the payload");
    }
    worker.shutdown().await;
    let admin = story.db.connect_super().await;
    let sql = "select string_agg(kind || ' ' || (bytes > 4000000) || ' ' || (job_finished_at is not null), ', ' order by kind)
               from jobforge.job_artifacts";
    let held: String = admin.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(held, "payload true true, result true true");
}

#[tokio::test]
async fn the_same_key_again_is_answered_with_the_first_job() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let mut story = Story::begin().await;
    let job = |payload: &Value| NewJob::new(NOOP, payload).unwrap().idempotency_key("once");
    let first = enqueue_job(&mut story.app, &*store, TENANT_A, job(&large(300_000))).await.unwrap();
    let again = enqueue_job(&mut story.app, &*store, TENANT_A, job(&large(300_000))).await.unwrap();
    assert_eq!((again.id, again.existing), (first.id, true));
    let other = enqueue_job(&mut story.app, &*store, TENANT_A, job(&large(400_000))).await;
    let Err(jobforge_artifacts::EnqueueError::Core(error)) = other else { panic!("{other:?}") };
    assert_eq!(error.code(), Some(Code::IdempotencyConflict));
}

#[tokio::test]
async fn a_payload_that_misuses_the_reserved_key_is_not_enqueued() {
    let story = Story::begin().await;
    let job = NewJob::new(NOOP, &json!({ "$artifact": "mine" })).unwrap();
    let error = jobforge_core::rpc::enqueue_job(&story.app, TENANT_A, &job).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Some(Code::PayloadInvalid), Some("artifact_malformed")));
}
