//! `connector.webhook.deliver`, seen by its receivers.

mod signatures;

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use jobforge_connectors::webhook::KEY;
use jobforge_core::rpc;
use jobforge_testkit::TENANT_A;
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::story::Story;

/// 24 bytes.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn delivery(server: &Server) -> Value {
    json!({ "url": server.url("/hook"), "event_type": "invoice.paid", "body": { "id": 7 }, "secrets": [SECRET] })
}

fn with(server: &Server, change: &Value) -> Value {
    let mut payload = delivery(server);
    payload.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    payload
}

#[tokio::test]
async fn every_answer_but_2xx_is_tried_again_and_410_ends_it() {
    static STATUS: AtomicU16 = AtomicU16::new(0);
    let story = Story::begin().await;
    let elsewhere = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let leads_to = elsewhere.url("/");
    let server = Server::start("127.0.0.1:0", move |_| {
        let headers = [("location", &leads_to[..]), ("retry-after", "3600")];
        Reply::with(STATUS.load(Ordering::SeqCst), &headers, b"")
    })
    .await;
    for status in [301, 302, 307, 400, 401, 404, 429, 500, 503] {
        STATUS.store(status, Ordering::SeqCst);
        let (error, wait) = story.retries(KEY, &delivery(&server)).await;
        assert!(error.starts_with(&format!("127.0.0.1 answered {status} ")), "{error}");
        assert!(wait >= Duration::from_secs(3600), "{status}: {wait:?}");
    }
    assert_eq!(elsewhere.accepted().await, 0, "a delivery follows no redirect");
    for status in [200, 202, 204] {
        STATUS.store(status, Ordering::SeqCst);
        assert_eq!(story.succeeds(KEY, &delivery(&server)).await["status"], status);
    }
    STATUS.store(410, Ordering::SeqCst);
    story.fails(KEY, &delivery(&server)).await;
}

#[tokio::test]
async fn gone_disables_the_config_and_its_next_delivery_is_not_sent() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::status(410)).await;
    story.configure("acme", json!({ "url": server.url("/hook") }), &[("signing_secret", SECRET)]);
    let payload = json!({ "connector": "acme", "event_type": "a", "body": null });
    story.fails(KEY, &payload).await;
    let reason = story.configs.disabled(TENANT_A, "acme");
    assert_eq!(reason.as_deref(), Some("the receiver answered 410 Gone"));
    assert_eq!(
        story.fails(KEY, &payload).await,
        "connector config acme is disabled: the receiver answered 410 Gone"
    );
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn little_of_an_answer_is_kept() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |request| {
        let status = if request.line.contains("fail") { 500 } else { 200 };
        let headers = [("x-request-id", "r1"), ("x-internal", "canary"), ("set-cookie", "canary")];
        Reply::with(status, &headers, &[b'z'; 100_000])
    })
    .await;
    let kept = story.succeeds(KEY, &delivery(&server)).await;
    assert_eq!((kept["body"].as_str().unwrap().len(), &kept["truncated"]), (1024, &json!(true)));
    assert_eq!(kept["headers"], json!({ "x-request-id": "r1" }));
    let (error, _) = story.retries(KEY, &with(&server, &json!({ "url": server.url("/fail") }))).await;
    assert_eq!(error.matches('z').count(), 1024, "{error}");
    assert!(!error.contains("canary"), "{error}");
}

#[tokio::test]
async fn a_receiver_that_took_the_delivery_need_not_end_its_answer() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| {
        Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec())
    })
    .await;
    assert_eq!(story.succeeds(KEY, &delivery(&server)).await["body"], "half");
}

#[tokio::test]
async fn a_receiver_that_hangs_can_be_left_at_any_time() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::Hang).await;
    let id = story.enqueue(KEY, &delivery(&server)).await;
    story.until(id, |_| server.received().len() == 1).await;
    rpc::cancel_job(&story.app, TENANT_A, id, None).await.unwrap();
    story.until(id, |job| job.status == "canceled").await;
}

#[tokio::test]
async fn a_receiver_that_hangs_has_thirty_seconds() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::Hang).await;
    let (error, _) = story.retries(KEY, &delivery(&server)).await;
    assert_eq!(error, "127.0.0.1 did not answer within 30 s");
}

#[tokio::test]
async fn deliveries_that_cannot_be_are_refused_before_anything_is_sent() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    story.configure("unsigned", json!({ "url": server.url("/") }), &[]);
    story.configure("weak", json!({ "url": server.url("/") }), &[("signing_secret", "hunter2")]);
    story.configure("named", json!({ "url": server.url("/"), "signing_secrets": ["gone"] }), &[]);
    story.configure("other", json!({ "url": server.url("/x") }), &[("signing_secret", SECRET)]);
    let by = |name: &str| json!({ "connector": name, "event_type": "a", "body": {} });
    for (payload, expected) in [
        (with(&server, &json!({ "secrets": [] })), "the payload is refused: /secrets: "),
        (with(&server, &json!({ "secrets": ["canary"] })), "the payload is refused: /secrets/0: "),
        (
            with(&server, &json!({ "secrets": ["whsec_Y2FuYXJ5"] })),
            "signing secret number 1 is refused: its key has not",
        ),
        (
            with(&server, &json!({ "secrets": [SECRET, SECRET, SECRET] })),
            "the payload is refused: /secrets: ",
        ),
        (with(&server, &json!({ "event_type": "a\nb" })), "the payload is refused: /event_type: "),
        (
            with(&server, &json!({ "signature_header": "Authorization" })),
            "the payload is refused: /signature_header: ",
        ),
        (with(&server, &json!({ "headers": { "Webhook-Id": "1" } })), "header webhook-id is refused"),
        (
            with(&server, &json!({ "headers": { "X-JobForge-Event": "1" } })),
            "header x-jobforge-event is refused",
        ),
        (
            with(&server, &json!({ "url": "http://10.0.0.1/" })),
            "10.0.0.1 is not an address that may be reached",
        ),
        (json!({ "event_type": "a", "body": {} }), "the payload is refused: the whole: "),
        (json!({ "url": server.url("/"), "event_type": "a", "body": {} }), "there is no signing secret"),
        (by("unsigned"), "there is no signing secret"),
        (by("weak"), "signing secret signing_secret is refused: it does not start with whsec_"),
        (by("named"), "there is no signing secret gone"),
        (with(&server, &json!({ "connector": "other" })), "leads away from the connector config's own"),
    ] {
        let error = story.fails(KEY, &payload).await;
        assert!(error.contains(expected), "{payload}: {error}");
        assert!(
            !error.contains("canary") && !error.contains("hunter2") && !error.contains("whsec_Y2"),
            "{error}"
        );
    }
    assert_eq!(server.accepted().await, 0);
}
