//! Work over HTTP: what each route does, who may, what is refused.

use jobforge_core::{Role, rpc};
use jobforge_testkit::{NOOP, QUEUE, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::worker_agent::{Agent, Held, enqueue, jobs, status};
use crate::world::World;

/// Every route with a body that is well formed.
fn calls() -> Vec<(String, Value)> {
    let (id, lease) = (Uuid::new_v4(), Uuid::new_v4());
    let held = json!({ "lease_id": lease, "tenant_id": TENANT_A, "fence": 1 });
    let with = |more: Value| {
        let mut body = held.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let row = json!([{ "tenant_id": TENANT_A, "id": id, "fence": 1 }]);
    let lanes = json!({ "worker_id": "w", "queues": [QUEUE], "types": [NOOP] });
    let single = |verb: &str| format!("/worker/jobs/{id}/{verb}");
    let mut register = lanes.clone();
    register.as_object_mut().unwrap().extend([("host".into(), json!("h")), ("version".into(), json!("1"))]);
    vec![
        ("/worker/register".into(), register),
        ("/worker/stop".into(), json!({ "worker_id": "w" })),
        ("/worker/jobs/claim".into(), lanes),
        ("/worker/heartbeat".into(), json!({ "lease_id": lease })),
        ("/worker/jobs/complete".into(), json!({ "lease_id": lease, "jobs": row })),
        ("/worker/jobs/fail".into(), json!({ "lease_id": lease, "jobs": row })),
        ("/worker/jobs/release".into(), json!({ "lease_id": lease, "jobs": row })),
        (single("heartbeat"), held.clone()),
        (single("complete"), held.clone()),
        (single("fail"), held.clone()),
        (single("release"), held.clone()),
        (single("snooze"), with(json!({ "seconds": 1 }))),
        (single("progress"), with(json!({ "percent": 1 }))),
        (single("log"), with(json!({ "lines": [{ "level": "info", "message": "m" }] }))),
        (single("exit"), with(json!({ "pid": 1 }))),
    ]
}

#[tokio::test]
async fn nobody_but_a_worker_works() {
    let world = World::new().await;
    for role in [Role::SuperAdmin, Role::TenantAdmin, Role::TenantViewer, Role::Producer] {
        let key = world.key(role).await;
        for (path, body) in calls() {
            world.post(&key, &path, body).await.refused(403, "JF009", "role_insufficient");
        }
    }
    for (path, body) in calls() {
        let answer = world.send(None, axum::http::Method::POST, &path, Some(body)).await;
        answer.refused(401, "JF101", "credential_invalid");
    }
    // And a worker does nothing else.
    let worker = world.key_of(Role::Worker, None).await;
    world.post(&worker, "/jobs", json!({ "type": NOOP })).await.refused(403, "JF009", "role_insufficient");
}

#[tokio::test]
async fn a_server_without_a_workers_login_has_no_workers() {
    let world = World::with(|config| config.worker_url = None).await;
    let worker = world.key_of(Role::Worker, None).await;
    for (path, body) in calls() {
        world.post(&worker, &path, body).await.refused(403, "JF009", "no_worker_login");
    }
}

#[tokio::test]
async fn what_is_not_known_is_refused_on_every_route() {
    let world = World::new().await;
    let worker = world.key_of(Role::Worker, None).await;
    for (path, mut body) in calls() {
        body.as_object_mut().unwrap().insert("locator".into(), json!("(0,1)"));
        world.post(&worker, &path, body).await.refused(400, "JF102", "body_invalid");
    }
}

#[tokio::test]
async fn a_single_report_on_an_unknown_job_is_not_found() {
    let world = World::new().await;
    let worker = world.key_of(Role::Worker, None).await;
    for (path, body) in calls().into_iter().filter(|(path, _)| path.matches('/').count() == 4) {
        let answer = world.post(&worker, &path, body).await;
        if path.ends_with("heartbeat") {
            // There is no such lease, which is all a beat is about.
            answer.refused(409, "JF006", "lease_lost");
        } else {
            answer.refused(404, "JF007", "job_unknown");
        }
    }
}

#[tokio::test]
async fn batches_have_a_verdict_for_each_row_and_a_bad_row_harms_no_other() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 4).await;
    let agent = Agent::of_a(&world).await;
    let held = agent.claim(4).await;
    let lease = &held[0].0["lease_id"];
    let mut rows: Vec<Value> = held[..2].iter().map(Held::row).collect();
    rows[0]["result"] = json!({ "sum": 1.10 });
    rows[1]["fence"] = json!(9);
    rows.push(json!({ "id": Uuid::new_v4(), "fence": 1 }));
    let mut nul = held[2].row();
    nul["result"] = json!("a\u{0}b");
    rows.push(nul);
    let answer =
        agent.post("/worker/jobs/complete", json!({ "lease_id": lease, "jobs": rows })).await.expect(200);
    let verdicts = |answer: &Value| -> Vec<String> {
        let rows = answer["jobs"].as_array().unwrap();
        rows.iter().map(|row| row["verdict"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(verdicts(&answer), ["done", "stale", "unknown", "invalid"]);
    // The same once more.
    let body = json!({ "lease_id": lease, "jobs": [held[0].row()] });
    assert_eq!(verdicts(&agent.post("/worker/jobs/complete", body).await.expect(200)), ["already"]);

    let rows = json!([
        { "id": held[3].id(), "fence": 1, "retry_after_seconds": -1 },
        { "id": held[1].id(), "fence": 1, "class": "permanent", "error": "no such address" },
        { "id": held[2].id(), "fence": 1, "class": "retryable", "error": "later\u{0}", "retry_after_seconds": 90.5 },
        { "id": held[2].id(), "fence": 7 },
    ]);
    let answer =
        agent.post("/worker/jobs/fail", json!({ "lease_id": lease, "jobs": rows })).await.expect(200);
    assert_eq!(verdicts(&answer), ["invalid", "done", "done", "stale"]);
    assert_eq!(
        (&answer["jobs"][1]["status"], &answer["jobs"][1]["run_at"]),
        (&json!("failed"), &json!(null))
    );
    assert_eq!(answer["jobs"][2]["status"], "queued");
    assert!(answer["jobs"][2]["run_at"].is_string());
    assert_eq!(answer["jobs"][3]["status"], json!(null));

    let rows = json!([held[3].row(), held[0].row()]);
    let answer =
        agent.post("/worker/jobs/release", json!({ "lease_id": lease, "jobs": rows })).await.expect(200);
    assert_eq!(verdicts(&answer), ["done", "already"]);
    assert_eq!(status(&world, TENANT_A, held[3].id()).await, "queued");
    assert_eq!(status(&world, TENANT_A, held[0].id()).await, "succeeded");
    assert_eq!(status(&world, TENANT_A, held[1].id()).await, "failed");
}

#[tokio::test]
async fn results_and_payloads_come_through_as_they_are() {
    let world = World::new().await;
    let producer = world.key(Role::Producer).await;
    let text = r#"{"type":"test.noop","payload":{"price":1.10,"big":9007199254740993}}"#;
    let request = axum::http::Request::post("/api/v1/jobs")
        .header("authorization", format!("Bearer {}", producer.text))
        .header("content-type", "application/json");
    world.request(request.body(text.into()).unwrap()).await.expect(201);
    let agent = Agent::of_all(&world).await;
    let claim = agent.try_claim(1, json!({})).await;
    let body = String::from_utf8(claim.bytes.clone()).unwrap();
    assert!(body.contains("1.10") && body.contains("9007199254740993"), "{body}");
    let job = jobs(&claim.expect(200)).pop().unwrap();
    for absent in ["locator", "ctid", "deaths"] {
        assert!(job.0.get(absent).is_none(), "{absent} leaves the process");
    }
    agent.report("complete", &job, json!({ "result": { "ok": true } })).await.expect(200);
    let found = world.get(&producer, &format!("/jobs/{}", job.id())).await.expect(200);
    assert_eq!(found["result"], json!({ "ok": true }));
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 1).await;
    let agent = Agent::of_all(&world).await;
    for (more, status, code, reason) in [
        (json!({ "limit": 0 }), 400, "JF001", "limit_out_of_range"),
        (json!({ "queues": [] }), 400, "JF001", "queues_out_of_range"),
        (json!({ "types": [] }), 400, "JF001", "types_out_of_range"),
        (json!({ "types": ["a\u{0}"] }), 400, "JF102", "name_malformed"),
        (json!({ "lease_seconds": 0 }), 400, "JF001", "lease_out_of_range"),
        (json!({ "window": 0 }), 400, "JF001", "window_out_of_range"),
        (json!({ "free": -1 }), 400, "JF001", "free_out_of_range"),
        (json!({ "wait_seconds": 31 }), 400, "JF102", "wait_out_of_range"),
        (json!({ "cursor": "x" }), 400, "JF102", "cursor_malformed"),
        (json!({ "new_lease_id": Uuid::nil() }), 400, "JF102", "lease_id_malformed"),
        (json!({ "lease_id": Uuid::new_v4() }), 409, "JF006", "lease_lost"),
        (json!({ "worker_id": "nobody" }), 404, "JF007", "worker_unknown"),
        (json!({ "worker_id": "a/b" }), 400, "JF102", "worker_id_malformed"),
    ] {
        agent.try_claim(1, more).await.refused(status, code, reason);
    }
    let job = agent.claim_one().await;
    for (verb, more, code, reason) in [
        ("fail", json!({ "class": "maybe" }), "JF102", "body_invalid"),
        ("fail", json!({ "retry_after_seconds": -1 }), "JF102", "retry_after_out_of_range"),
        ("snooze", json!({ "seconds": 1e9 }), "JF102", "snooze_out_of_range"),
        ("progress", json!({ "percent": 101 }), "JF001", "percent_out_of_range"),
        ("log", json!({ "lines": "m" }), "JF102", "body_invalid"),
        ("exit", json!({ "exit_code": 256 }), "JF001", "exit_code_out_of_range"),
        ("complete", json!({ "tenant_id": null }), "JF102", "tenant_missing"),
    ] {
        agent.report(verb, &job, more).await.refused(400, code, reason);
    }
    agent.report("complete", &job, json!({ "result": "a\u{0}" })).await.refused(
        422,
        "JF003",
        "result_invalid",
    );
    let register = json!({
        "host": "h", "version": "1", "queues": [QUEUE], "types": [NOOP], "metadata": { "k": "\u{0}" },
    });
    agent.post("/worker/register", register).await.refused(400, "JF001", "metadata_nul");
    let beat = json!({ "lease_id": job.0["lease_id"], "through": 1 });
    agent.post("/worker/heartbeat", beat).await.refused(400, "JF102", "body_invalid");
    let many: Vec<Value> = (0..5001).map(|_| job.row()).collect();
    let many = json!({ "lease_id": job.0["lease_id"], "jobs": many });
    agent.post("/worker/jobs/complete", many).await.refused(400, "JF102", "batch_size");
    assert_eq!(status(&world, TENANT_A, job.id()).await, "running");
    agent.report("complete", &job, json!({})).await.expect(200);
}

#[tokio::test]
async fn a_lost_answers_jobs_go_back_by_the_lease_that_the_worker_chose() {
    let world = World::new().await;
    let ids = enqueue(&world, TENANT_A, 2).await;
    let agent = Agent::of_all(&world).await;
    let lease = Uuid::new_v4();
    // Nobody reads this answer.
    agent.try_claim(2, json!({ "new_lease_id": lease })).await.expect(200);
    enqueue(&world, TENANT_A, 1).await;
    agent.try_claim(2, json!({ "new_lease_id": lease })).await.refused(409, "JF008", "lease_taken");
    agent.post("/worker/jobs/release", json!({ "lease_id": lease })).await.expect(200);
    for id in &ids {
        assert_eq!(status(&world, TENANT_A, id).await, "queued");
    }
    agent.post("/worker/jobs/release", json!({ "lease_id": lease })).await.refused(
        409,
        "JF006",
        "lease_lost",
    );
    assert_eq!(agent.claim(5).await.len(), 3);
}

#[tokio::test]
async fn two_credentials_with_the_same_worker_id_are_two_workers() {
    let world = World::new().await;
    let (one, two) = (Agent::of_all(&world).await, world.key_of(Role::Worker, None).await);
    let claim = json!({ "worker_id": one.worker_id, "queues": [QUEUE], "types": [NOOP] });
    world.post(&two, "/worker/jobs/claim", claim).await.refused(404, "JF007", "worker_unknown");
    let stop = json!({ "worker_id": one.worker_id });
    world.post(&two, "/worker/stop", stop.clone()).await.refused(404, "JF007", "worker_unknown");
    let two = Agent::with_key(&world, two, &one.worker_id).await;
    two.post("/worker/stop", stop).await.expect(204);
    let workers = rpc::list_workers(&world.db.as_operator().await, 10).await.unwrap();
    let stopped = |agent: &Agent<'_>| {
        let entry = workers.iter().find(|worker| worker.worker_id.contains(&agent.key.id)).unwrap();
        assert_eq!((entry.host.as_str(), entry.slots), ("here", 2));
        entry.stopped_at.is_some()
    };
    assert_eq!((stopped(&one), stopped(&two)), (false, true));
}

#[tokio::test]
async fn a_worker_without_a_name_is_given_one() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 1).await;
    let key = world.key_of(Role::Worker, None).await;
    let body = json!({ "host": "h", "version": "1", "queues": [QUEUE], "definition_keys": [NOOP] });
    let name = world.post(&key, "/worker/register", body).await.expect(200)["worker_id"].clone();
    let claim = json!({ "worker_id": name, "queues": [QUEUE], "definition_keys": [NOOP] });
    assert_eq!(jobs(&world.post(&key, "/worker/jobs/claim", claim).await.expect(200)).len(), 1);
}

#[test]
fn every_route_is_described_with_its_body() {
    let document: Value = serde_json::from_str(&jobforge_server::document()).unwrap();
    for (path, _) in calls() {
        let place = match path.rsplit('/').collect::<Vec<_>>()[..] {
            [verb, _, "jobs", "worker", ""] => format!("/api/v1/worker/jobs/{{id}}/{verb}"),
            _ => format!("/api/v1{path}"),
        };
        let operation = &document["paths"][&place]["post"];
        assert_eq!(operation["tags"], json!(["worker"]), "{place}");
        let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let name = body.as_str().and_then(|place| place.strip_prefix("#/components/schemas/")).unwrap();
        let schema = &document["components"]["schemas"][name];
        assert_eq!(
            schema["additionalProperties"],
            json!(false),
            "{place}: {name} takes what it does not know"
        );
    }
}
