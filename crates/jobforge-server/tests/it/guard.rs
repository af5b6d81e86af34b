//! What no request may do, whoever sends it.

use std::sync::Arc;

use jobforge_core::{Role, StoredSecret};
use jobforge_server::{SealError, SealPlace, Sealer};
use jobforge_testkit::NOOP;
use secrecy::SecretString;
use serde_json::json;

use crate::auth_support::Ask;
use crate::world::World;

#[tokio::test]
async fn bombs_are_refused_and_change_nothing() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let send = async |payload: &str| {
        let body = format!("{{\"type\": \"{NOOP}\", \"payload\": {payload}}}");
        let request = axum::http::Request::builder()
            .method("POST")
            .uri("/api/v1/jobs")
            .header("authorization", format!("Bearer {}", producer.text))
            .header("content-type", "application/json")
            .body(body.into())
            .unwrap();
        world.request(request).await
    };
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    send(&deep(100)).await.expect(201);
    send(&deep(100_000)).await.refused(400, "JF102", "body_too_deep");
    send(&"[".repeat(100_000)).await.refused(400, "JF102", "body_too_deep");
    send(&"{\"a\":".repeat(100_000)).await.refused(400, "JF102", "body_too_deep");
    for number in ["1e131071", "1e-999999999", "1E+400000000000000000000000000", &"9".repeat(5000)] {
        send(number).await.refused(400, "JF102", "number_too_long");
        send(&format!("[1, {{\"a\": {number}}}]")).await.refused(400, "JF102", "number_too_long");
    }
    send("[1e400, 1e-400]").await.refused(422, "JF003", "number_too_long");
    for absurd in ["99999999999999999999", "-1e5", "1.5", "\"7\"", "2147483648"] {
        let body = format!("{{}}, \"priority\": {absurd}");
        let answer = send(&body).await;
        assert!(answer.status.is_client_error(), "{absurd}: {}", answer.status);
    }
    let mut jobs = 0;
    for row in world.db.connect_super().await.query("select 1 from jobforge.jobs", &[]).await.unwrap() {
        jobs += row.get::<_, i32>(0);
    }
    assert_eq!(jobs, 1, "the sound one alone is there");
}

#[tokio::test]
async fn a_request_has_a_name_and_an_answer_a_kind() {
    let world = World::new().await;
    let named = Ask::get("/health/live").header("x-request-id", "order-7").of(&world.router).await;
    assert_eq!(named.headers["x-request-id"], "order-7");
    assert_eq!(named.headers["x-content-type-options"], "nosniff");
    for bad in ["", "two words", &"x".repeat(129)] {
        let answer = Ask::get("/health/live").header("x-request-id", bad).of(&world.router).await;
        let given = answer.headers["x-request-id"].to_str().unwrap();
        assert!(uuid::Uuid::parse_str(given).is_ok(), "{bad} became {given}");
    }
}

#[tokio::test]
async fn every_refusals_type_is_a_page() {
    let world = World::new().await;
    let get = async |path: &str| {
        world.request(axum::http::Request::builder().uri(path).body(axum::body::Body::empty()).unwrap()).await
    };
    let refusal = get("/api/v1/jobs").await.expect(401);
    let page = get(refusal["type"].as_str().unwrap()).await;
    assert_eq!(page.headers["content-type"], "text/markdown; charset=utf-8");
    assert!(page.bytes.starts_with(b"# JF101 "));
    assert_eq!(page.status, 200);
    for unknown in ["/errors/JF999", "/errors/..%2FJF001", "/errors/jf101"] {
        get(unknown).await.refused(404, "JF104", "code_unknown");
    }
}

/// Fails as no sealer should.
#[derive(Debug)]
struct Broken;

impl Sealer for Broken {
    fn seal(&self, _: SealPlace<'_>, _: &SecretString) -> Result<StoredSecret, SealError> {
        panic!("a sealer that breaks");
    }
}

#[tokio::test]
async fn a_panic_fails_its_own_request_and_is_told_by_its_name() {
    let world = World::with(|config| config.sealer = Some(Arc::new(Broken))).await;
    let admin = world.key(Role::TenantAdmin).await;
    let body = json!({ "secrets": { "token": { "value": "s" } } });
    let ask = Ask::post("/admin/connectors/shop", &body).put().key(&admin).header("x-request-id", "order-7");
    let answer = ask.of(&world.router).await;
    assert_eq!(answer.headers["x-request-id"], "order-7");
    let refusal = answer.refused(500, "JF107", "internal");
    assert!(!refusal.to_string().contains("breaks"), "{refusal}");
    world.get(&admin, "/jobs").await.expect(200);
}
