//! Bodies that are not what a route takes: refused, each with the place at fault.

use std::time::Duration;

use jiff::Timestamp;
use jobforge_core::Role;
use jobforge_testkit::{NOOP, OTHER, QUEUE, TENANT_A};
use serde_json::{Value, json};

use crate::admin::delete;
use crate::auth_support::Ask;
use crate::world::World;

/// The places that a refusal names.
fn places(refusal: &Value) -> Vec<&str> {
    let faults = refusal["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    faults.iter().map(|fault| fault["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_refusal_names_the_place_at_fault() {
    let world = World::new().await;
    let admin = world.key(Role::TenantAdmin).await;
    let lease = "8a6e0804-2bd0-4672-b79d-d97027f9071a";
    let worker = world.key_of(Role::Worker, None).await;
    for (key, path, body, place) in [
        (&admin, "/jobs", json!({ "type": 5 }), "/type"),
        (&admin, "/jobs", json!({ "type": NOOP, "priority": "high" }), "/priority"),
        (&admin, "/jobs", json!({ "type": NOOP, "tags": ["a", 7] }), "/tags/1"),
        (&admin, "/jobs", json!({ "type": NOOP, "run_at": "yesterday" }), "/run_at"),
        (&admin, "/jobs", json!({ "type": NOOP, "colour": 1 }), "/colour"),
        (&admin, "/jobs", json!({ "payload": {} }), "/type"),
        (&admin, "/jobs", json!({ "type": NOOP, "definition_key": NOOP }), "/type"),
        (&admin, "/bulk", json!({ "kind": "cancel", "reason": "r", "filter": { "tag": 1 } }), "/filter/tag"),
        (
            &admin,
            "/bulk",
            json!({ "kind": "cancel", "reason": "r", "filter": { "a/b~": 1 } }),
            "/filter/a~1b~0",
        ),
        (&worker, "/worker/jobs/complete", json!({ "lease_id": "x", "jobs": [] }), "/lease_id"),
        (&worker, "/worker/jobs/complete", json!({ "lease_id": lease, "jobs": {} }), "/jobs"),
        (&worker, "/worker/jobs/complete", json!({ "lease_id": lease }), "/jobs"),
        (&worker, "/worker/jobs/complete", json!({ "lease_id": lease, "jobs": [{}], "more": 1 }), "/more"),
        (&worker, "/worker/jobs/release", json!({ "lease_id": lease, "jobs": "all" }), "/jobs"),
        (&worker, "/worker/heartbeat", json!({ "lease_id": lease, "jobs": 1 }), "/jobs"),
    ] {
        let refusal = world.post(key, path, body.clone()).await.refused(400, "JF102", "body_invalid");
        assert_eq!(places(&refusal), [place], "{path} {body}: {refusal}");
    }
}

#[tokio::test]
async fn the_databases_refusal_of_a_job_names_the_place_too() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let operator = world.key(Role::SuperAdmin).await;
    world.post(&producer, "/jobs", json!({ "type": NOOP, "idempotency_key": "k" })).await.expect(201);
    delete(&world, &operator, &format!("/admin/jobs/definitions/{OTHER}")).await.expect(200);
    for (more, place) in [
        (json!({ "type": "nobody.knows" }), "/type"),
        (json!({ "type": OTHER }), "/type"),
        (json!({ "priority": 1 }), "/priority"),
        (json!({ "run_at": "9999-01-01T00:00:00Z" }), "/run_at"),
        (json!({ "max_attempts": 0 }), "/max_attempts"),
        (json!({ "tags": ["x".repeat(100_000)] }), "/tags"),
        (json!({ "payload": "\0" }), "/payload"),
        (json!({ "id": "8a6e0804-2bd0-4672-b79d-d97027f9071a" }), "/id"),
        (json!({ "idempotency_key": "" }), "/idempotency_key"),
        (json!({ "idempotency_key": "k", "payload": 1 }), "/idempotency_key"),
        (json!({ "source": "moon" }), "/source"),
        (json!({ "source_ref": "x".repeat(1000) }), "/source_ref"),
    ] {
        let mut body = json!({ "type": NOOP });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refusal = world.post(&producer, "/jobs", body.clone()).await.json();
        assert_eq!(places(&refusal), [place], "{body}: {refusal}");
        let many = world.post(&producer, "/jobs", json!([{ "type": NOOP }, body])).await.expect(200);
        assert_eq!(places(&many["jobs"][1]["error"]), [format!("/1{place}")], "{body}: {many}");
    }
}

#[tokio::test]
async fn the_refusal_of_a_setting_names_the_setting() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let definition = "/admin/jobs/definitions/mail.send".to_owned();
    let tenant = format!("/admin/tenants/{TENANT_A}");
    for (path, name, value) in [
        (&definition, "timeout_seconds", json!(0)),
        (&definition, "max_attempts", json!(0)),
        (&definition, "max_deaths", json!(0)),
        (&definition, "max_in_flight", json!(0)),
        (&definition, "max_in_flight_per_key", json!(0)),
        (&definition, "rate_per_second", json!(-1)),
        (&definition, "rate_burst", json!(0)),
        (&definition, "retention", json!("x")),
        (&definition, "dead_retention", json!("x")),
        (&definition, "retry_base_ms", json!(-1)),
        (&definition, "retry_factor", json!(0)),
        (&definition, "retry_jitter", json!(2)),
        (&definition, "retry_preset", json!("x")),
        (&definition, "queue", json!("")),
        (&definition, "redact", json!(["x"])),
        (&tenant, "weight", json!(0)),
        (&tenant, "max_pending", json!(-1)),
        (&tenant, "retention", json!("x")),
        (&tenant, "time_zone", json!("Mars/North")),
        (&tenant, "name", json!("")),
    ] {
        let refusal = crate::admin::put(&world, &operator, path, json!({ name: value })).await.expect(400);
        assert_eq!(places(&refusal), [format!("/{name}")], "{refusal}");
        assert!(!refusal.to_string().contains("constraint"), "{refusal}");
    }
}

#[tokio::test]
async fn a_row_that_is_no_job_takes_none_of_the_others_along() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let rows = json!([{ "type": NOOP }, { "typ": NOOP }, null, [NOOP], { "type": NOOP, "priority": "x" }, { "type": NOOP }]);
    let answer = world.post(&producer, "/jobs", rows).await.expect(200);
    assert_eq!((&answer["enqueued"], &answer["refused"]), (&json!(2), &json!(4)), "{answer}");
    let jobs = answer["jobs"].as_array().unwrap();
    let verdicts: Vec<bool> = jobs.iter().map(|job| job["id"].is_string()).collect();
    assert_eq!(verdicts, [true, false, false, false, false, true]);
    let at: Vec<&str> = jobs.iter().flat_map(|job| places(&job["error"])).collect();
    assert_eq!(at, ["/1/typ", "/2", "/3", "/4/priority"]);
    for job in &jobs[1..5] {
        assert_eq!(job["error"]["reason"], "body_invalid");
    }
}

/// Bounds are a row's own, too: the database would have to pay for one bomb, not for its neighbours.
#[tokio::test]
async fn a_row_beyond_the_bounds_takes_none_of_the_others_along() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let job = |payload: &str| format!(r#"{{"type": "{NOOP}", "payload": {payload}}}"#);
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let rows = [job("{}"), job("1e999"), job(&deep), job(r#"{"a": "\ud800"}"#), job("1.10")].join(",");
    let request = axum::http::Request::post("/api/v1/jobs")
        .header("authorization", format!("Bearer {}", producer.text))
        .header("content-type", "application/json");
    let answer = world.request(request.body(format!("[{rows}]").into()).unwrap()).await.expect(200);
    let told = |job: &Value| job["error"]["reason"].as_str().unwrap_or("enqueued").to_owned();
    let told: Vec<String> = answer["jobs"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(
        told,
        ["enqueued", "number_too_long", "body_too_deep", "payload_half_surrogate", "enqueued"],
        "{answer}"
    );
    assert_eq!((&answer["enqueued"], &answer["refused"]), (&json!(2), &json!(3)));
    let at: Vec<&str> =
        answer["jobs"].as_array().unwrap().iter().flat_map(|job| places(&job["error"])).collect();
    assert_eq!(at, ["/1", "/2", "/3/payload"]);
}

/// What Postgres cannot store is found before it is sent, row by row.
#[tokio::test]
async fn a_row_that_cannot_be_stored_takes_none_of_the_others_along() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    for (name, value) in [
        ("type", json!("mail\0")),
        ("queue", json!("a\0")),
        ("dedupe_key", json!("\0")),
        ("idempotency_key", json!("\0")),
        ("concurrency_key", json!("\0")),
        ("correlation_id", json!("\0")),
        ("traceparent", json!("\0")),
        ("tags", json!(["\0"])),
        ("source", json!("\0")),
        ("source_ref", json!("\0")),
        ("run_at", json!("-009999-01-01T00:00:00Z")),
        ("payload", json!({ "a\0": "\0" })),
    ] {
        let mut bad = json!({ "type": NOOP });
        bad[name] = value;
        let rows = json!([{ "type": NOOP }, bad, { "type": NOOP, "priority": 50 }]);
        let answer = world.post(&producer, "/jobs", rows).await.expect(200);
        assert_eq!((&answer["enqueued"], &answer["refused"]), (&json!(2), &json!(1)), "{bad}: {answer}");
        assert!(answer["jobs"][1]["error"]["code"].is_string(), "{bad}: {answer}");
    }
}

#[tokio::test]
async fn a_type_that_can_be_none_is_refused_as_what_it_is() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let enqueue = async |key: &str| world.post(&producer, "/jobs", json!({ "type": key })).await;
    enqueue("mail\0").await.refused(400, "JF001", "text_nul");
    enqueue(&"x".repeat(100_000)).await.refused(422, "JF002", "unknown_definition");
}

#[tokio::test]
async fn metadata_is_an_object() {
    let world = World::new().await;
    let worker = world.key_of(Role::Worker, None).await;
    let body = json!({ "host": "h", "version": "1", "queues": [QUEUE], "types": [NOOP], "metadata": 5 });
    let refusal =
        world.post(&worker, "/worker/register", body).await.refused(400, "JF102", "metadata_malformed");
    assert_eq!(places(&refusal), ["/metadata"]);
}

#[tokio::test]
async fn too_many_rows_are_refused_once() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let rows = vec![json!({ "type": NOOP }); 10_001];
    world.post(&producer, "/jobs", json!(rows)).await.refused(400, "JF001", "batch_size");
    assert!(world.db.connect_super().await.query("select from jobforge.jobs", &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_array_is_no_object() {
    let world = World::new().await;
    let admin = world.key(Role::TenantAdmin).await;
    let job = world.post(&admin, "/jobs", json!({ "type": NOOP })).await.expect(201);
    let id = job["id"].as_str().unwrap();
    for body in [json!([]), json!(["because"])] {
        let answer = world.post(&admin, &format!("/jobs/{id}/cancel"), body).await;
        answer.refused(400, "JF102", "body_invalid");
    }
    assert_eq!(world.get(&admin, &format!("/jobs/{id}")).await.expect(200)["status"], "queued");
}

#[tokio::test]
async fn an_encoded_body_is_not_taken_for_json() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let ask = Ask::post("/jobs", &json!({ "type": NOOP })).key(&producer).header("content-encoding", "gzip");
    ask.of(&world.router).await.refused(415, "JF102", "content_encoding");
}

#[tokio::test]
async fn a_key_that_names_a_job_of_another_type_tells_that_type() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let first = world.post(&producer, "/jobs", json!({ "type": NOOP, "dedupe_key": "k" })).await.expect(201);
    let again = json!({ "type": OTHER, "dedupe_key": "k" });
    let told = world.post(&producer, "/jobs", again.clone()).await.expect(200);
    assert_eq!((&told["id"], &told["existing"], &told["type"]), (&first["id"], &json!(true), &json!(NOOP)));
    let many = world.post(&producer, "/jobs", json!([{ "type": OTHER }, again])).await.expect(200);
    assert_eq!(many["jobs"][0]["type"], OTHER);
    assert_eq!((&many["jobs"][1]["id"], &many["jobs"][1]["type"]), (&first["id"], &json!(NOOP)));
}

#[tokio::test]
async fn a_list_tells_what_an_enqueue_tells() {
    let world = World::new().await;
    let (producer, viewer) = (world.key(Role::Producer).await, world.key(Role::TenantViewer).await);
    let later = Timestamp::now() + Duration::from_secs(86_400);
    let later = json!({ "type": NOOP, "scheduled_for": later });
    let job = world.post(&producer, "/jobs", json!({ "type": NOOP })).await.expect(201);
    world.post(&producer, "/jobs", later).await.expect(201);
    let listed = world.get(&viewer, "/jobs?limit=2").await.expect(200)["jobs"][1].clone();
    assert_eq!((&listed["id"], &listed["tenant_id"]), (&job["id"], &json!(TENANT_A)));
    assert_eq!(listed["queued_at"], listed["created_at"]);
    let summary = world.get(&viewer, "/jobs/summary").await.expect(200);
    assert_eq!(
        (&summary["queued"], &summary["scheduled"], &summary["ready"]),
        (&json!(2), &json!(1), &json!(1)),
        "{summary}"
    );
}
