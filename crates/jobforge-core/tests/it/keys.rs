//! Idempotency keys, ids of clients, dedupe keys.

use futures_util::future::join_all;
use jobforge_core::dedupe::dedupe_key;
use jobforge_core::rpc::{canonical, complete_job, derive_dedupe_key, enqueue_job, enqueue_jobs};
use jobforge_core::{Code, NewJob};
use jobforge_testkit::{NOOP, OTHER, TENANT_A, TENANT_B};
use serde::Deserialize;
use uuid::Uuid;

use crate::story::{Story, json, noop, refused};

#[tokio::test]
async fn fifty_racing_enqueues_with_one_key_make_one_job() {
    let story = Story::begin().await;
    let clients = join_all((0..50).map(|_| story.db.as_app())).await;
    let job = noop().idempotency_key("order-7");
    let answers = join_all(clients.iter().map(|client| enqueue_job(client, TENANT_A, &job))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|answer| answer.id == answers[0].id));
    assert_eq!(answers.iter().filter(|answer| !answer.existing).count(), 1);
    assert_eq!(story.claim(100).await.jobs.len(), 1);
}

#[tokio::test]
async fn a_key_is_the_tenants_and_the_types_own_and_keeps_its_payload() {
    let story = Story::begin().await;
    let job = noop().idempotency_key("k");
    let first = story.enqueue(&job).await;
    let again = story.enqueue(&job).await;
    assert_eq!((again.id, again.existing, again.status.as_str()), (first.id, true, "queued"));
    let other_payload = NewJob { payload: json("{\"n\": 1}"), ..job.clone() };
    let conflict = refused(enqueue_job(&story.app, TENANT_A, &other_payload).await);
    assert_eq!(conflict, (Code::IdempotencyConflict, "key_reused_with_other_payload".to_owned()));
    assert!(!enqueue_job(&story.app, TENANT_B, &job).await.unwrap().existing);
    assert!(!story.enqueue(&NewJob { job_type: OTHER.to_owned(), ..job.clone() }).await.existing);

    let taken = story.claim(1).await.jobs.remove(0);
    complete_job(&story.worker, taken.lease_id, taken.job, None).await.unwrap();
    let after = story.enqueue(&job).await;
    assert_eq!((after.id, after.existing, after.status.as_str()), (first.id, true, "succeeded"));
}

#[tokio::test]
async fn a_clients_id_is_kept_and_answers_again() {
    let story = Story::begin().await;
    let job = noop().id(Uuid::now_v7());
    let first = story.enqueue(&job).await;
    assert_eq!((Some(first.id), first.existing), (job.id, false));
    assert!(story.enqueue(&job).await.existing);
}

#[tokio::test]
async fn a_living_twin_is_the_answer_and_a_finished_one_is_not() {
    let story = Story::begin().await;
    let job = noop().dedupe_key("nightly");
    let first = story.enqueue(&job).await;
    let twin = story.enqueue(&job).await;
    assert_eq!((twin.id, twin.existing), (first.id, true));
    let taken = story.claim(1).await.jobs.remove(0);
    assert_eq!(story.enqueue(&job).await.status, "running");
    complete_job(&story.worker, taken.lease_id, taken.job, None).await.unwrap();
    assert!(!story.enqueue(&job).await.existing);
}

#[tokio::test]
async fn keyed_and_unkeyed_rows_share_a_batch() {
    let story = Story::begin().await;
    let jobs =
        [noop(), noop().idempotency_key("a"), noop().dedupe_key("b"), noop().idempotency_key("a"), noop()];
    let answers = enqueue_jobs(&story.app, TENANT_A, &jobs).await.unwrap();
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers[1].id, answers[3].id);
    assert!(answers[3].existing && !answers[1].existing);
    assert_eq!(story.claim(100).await.jobs.len(), 4);
}

#[derive(Deserialize)]
struct Vector {
    why: String,
    tenant_id: Uuid,
    #[serde(rename = "type")]
    job_type: String,
    payload: String,
    key: String,
}

#[tokio::test]
async fn derived_keys_are_the_same_in_sql_and_in_rust() {
    let story = Story::begin().await;
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../conformance/dedupe_keys.json")).unwrap();
    for vector in vectors {
        let payload = json(&vector.payload);
        assert_eq!(dedupe_key(vector.tenant_id, &vector.job_type, &payload), vector.key, "{}", vector.why);
        let derived = derive_dedupe_key(&story.app, vector.tenant_id, &vector.job_type, &payload).await;
        assert_eq!(derived.unwrap(), vector.key, "{}", vector.why);
        let text = canonical(&story.app, &payload).await.unwrap();
        assert!(vector.key.ends_with(&text), "{}", vector.why);
    }
    assert_eq!(dedupe_key(TENANT_A, NOOP, &json("{}")), format!("{NOOP}::{TENANT_A}::{{}}"));
}

#[tokio::test]
async fn a_derived_key_may_be_as_long_as_its_payload() {
    let story = Story::begin().await;
    let payload = json(&format!("{{\"text\": \"{}\"}}", "x".repeat(5000)));
    let key = dedupe_key(TENANT_A, NOOP, &payload);
    let job = NewJob { payload, ..noop() }.dedupe_key(key.as_str());
    let first = story.enqueue(&job).await;
    assert!(!first.existing);
    assert_eq!(story.enqueue(&job).await.id, first.id);
    assert!(!story.enqueue(&job.clone().dedupe_key(format!("{key} "))).await.existing);
}
