//! Jobs, as their tenant sees them.

use std::time::Duration;

use jobforge_core::Role;
use jobforge_testkit::{APP, FaultProxy, Mode, NOOP, PASSWORD, TENANT_A};
use serde_json::json;

use crate::auth_support::{Ask, second, until};
use crate::world::World;

#[tokio::test]
async fn a_job_is_enqueued_and_found_again() {
    let world = World::new().await;
    let (producer, viewer) = (world.key(Role::Producer).await, world.key(Role::TenantViewer).await);
    let answer = world.post(&producer, "/jobs", json!({ "type": NOOP, "payload": { "n": 1.10 } })).await;
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    let job = answer.expect(201);
    assert_eq!(job["tenant_id"], TENANT_A.to_string());
    assert_eq!((job["status"].as_str(), job["type"].as_str()), (Some("queued"), Some(NOOP)));
    assert!(job["queued_at"].is_string());
    assert_eq!(location, format!("/api/v1/jobs/{}", job["id"].as_str().unwrap()));

    let found = world.get(&producer, location.strip_prefix("/api/v1").unwrap()).await.expect(200);
    assert_eq!((&found["id"], &found["payload"]), (&job["id"], &json!({ "n": 1.10 })));
    let page = world.get(&viewer, "/jobs?status=queued").await.expect(200);
    assert_eq!(page["jobs"][0]["id"], job["id"]);
    assert_eq!(page["next_cursor"], json!(null));
}

#[tokio::test]
async fn many_are_enqueued_and_a_bad_one_alone_is_refused() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let jobs =
        json!([{ "type": NOOP }, { "type": "nobody.knows" }, { "definition_key": NOOP, "dedupe_key": "k" }]);
    let answer = world.post(&producer, "/jobs", jobs).await.expect(200);
    assert_eq!((answer["enqueued"].as_u64(), answer["refused"].as_u64()), (Some(2), Some(1)));
    assert_eq!(answer["jobs"][1]["error"]["code"], "JF002");
    assert!(answer["jobs"][2]["id"].is_string());
}

#[tokio::test]
async fn a_foreign_job_looks_like_an_unknown_one() {
    let world = World::new().await;
    let (a, b) = (world.key(Role::TenantAdmin).await, world.key_of_b(Role::TenantAdmin).await);
    let job = world.post(&a, "/jobs", json!({ "type": NOOP })).await.expect(201);
    let id = job["id"].as_str().unwrap();
    let foreign = world.get(&b, &format!("/jobs/{id}")).await;
    let unknown = world.get(&b, &format!("/jobs/{}", uuid::Uuid::now_v7())).await;
    assert_eq!(foreign.status, unknown.status);
    foreign.refused(404, "JF007", "job_unknown");
}

/// Every lane holds a batch that gets no answer; none of them is lost to it.
#[tokio::test]
async fn a_database_that_falls_silent_keeps_no_lane() {
    let world = World::new().await;
    let proxy = FaultProxy::start(world.db.cluster_port()).await;
    let silent = second(&world.db, |config| {
        config.tenant_url = proxy.through(&world.db.url_as(APP, Some(PASSWORD)));
        config.call_timeout = Duration::from_millis(500);
    })
    .await;
    let producer = world.key(Role::Producer).await;
    let body = json!({ "type": NOOP });
    let enqueue = async || Ask::post("/jobs", &body).key(&producer).of(&silent).await;
    until("the server is warm", async || enqueue().await.status == 201).await;
    proxy.set_mode(Mode::Stall);
    for _ in 0..3 {
        // Before the guard of all requests gives up on it.
        let answer = tokio::time::timeout(Duration::from_secs(30), enqueue()).await.unwrap();
        // On a connection that was there it is late, on a new one not to be had.
        assert_eq!(answer.expect(503)["code"], "JF106");
    }
    proxy.set_mode(Mode::Pass);
    until("it answers again", async || enqueue().await.status == 201).await;
}
