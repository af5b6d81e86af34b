//! Batches of reports with rows that are none: each such row has a verdict of its own, and the others are carried out.

use axum::http::Request;
use jobforge_testkit::TENANT_A;
use serde_json::{Value, json};

use crate::worker_agent::{Agent, Held, enqueue, status};
use crate::world::World;

const STRANGER: &str = "8a6e0804-2bd0-4672-b79d-d97027f9071a";

/// Rows that are wrong each in its own way, with the reason and the place, within the row, that they are told.
fn bad_rows(job: &Held) -> Vec<(Value, &'static str, &'static str)> {
    let row = |name: &str, value: Value| {
        let mut row = job.row();
        row[name] = value;
        row
    };
    let without = |name: &str| {
        let mut row = job.row();
        row.as_object_mut().unwrap().remove(name);
        row
    };
    vec![
        (json!({ "tenant_id": TENANT_A, "id": "no-uuid", "fence": 1 }), "body_invalid", "/id"),
        (without("id"), "body_invalid", "/id"),
        (without("fence"), "body_invalid", "/fence"),
        (without("tenant_id"), "tenant_missing", "/tenant_id"),
        (row("tenant_id", json!(7)), "body_invalid", "/tenant_id"),
        (row("fence", json!(2_147_483_648_i64)), "body_invalid", "/fence"),
        (row("fence", json!("1")), "body_invalid", "/fence"),
        (row("locator", json!("(0,1)")), "body_invalid", "/locator"),
        (json!(null), "body_invalid", ""),
        (json!([job.id(), 1]), "body_invalid", ""),
    ]
}

/// A bad row before, between and behind the good ones, over and over.
fn mixed(bad: &[(Value, &str, &str)], good: &[Value]) -> Vec<Value> {
    let mut rows: Vec<Value> = bad.iter().map(|(row, ..)| row.clone()).collect();
    for (at, row) in good.iter().enumerate() {
        rows.insert(1 + at * 2, row.clone());
    }
    rows
}

/// Fails the test unless the bad rows were told as such, in their order.
#[track_caller]
fn told(answer: &Value, bad: &[(Value, &str, &str)]) {
    let rows = answer["jobs"].as_array().unwrap().iter().enumerate();
    let invalid: Vec<(usize, &Value)> = rows.filter(|(_, row)| row["verdict"] == "invalid").collect();
    assert_eq!(invalid.len(), bad.len(), "{answer}");
    for ((at, row), (given, reason, place)) in invalid.into_iter().zip(bad) {
        let error = &row["error"];
        assert_eq!((&error["code"], &error["reason"]), (&json!("JF102"), &json!(reason)), "{given}: {row}");
        assert_eq!(error["errors"][0]["path"], format!("/jobs/{at}{place}"), "{given}: {row}");
        assert!(row["id"].is_null() || row["id"] == given["id"], "{given}: {row}");
    }
}

fn verdicts(answer: &Value) -> Vec<&str> {
    let rows = answer["jobs"].as_array().unwrap().iter();
    let sound = rows.filter(|row| row["verdict"] != "invalid");
    sound.map(|row| row["verdict"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn completions_that_are_none_take_no_other_along() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 4).await;
    let agent = Agent::of_all(&world).await;
    let held = agent.claim(4).await;
    let mut bad = bad_rows(&held[3]);
    let (bomb, mut good): (Value, Vec<Value>) =
        (json!({ "big": 1 }), held[..3].iter().map(Held::row).collect());
    good[0]["result"] = bomb;
    good[1]["fence"] = json!(9);
    good[2]["result"] = json!({ "sum": 1.5 });
    let body = json!({ "lease_id": held[0].0["lease_id"], "jobs": mixed(&bad, &good) });
    let answer = agent.post("/worker/jobs/complete", body).await.expect(200);
    told(&answer, &bad);
    assert_eq!(verdicts(&answer), ["done", "stale", "done"]);
    assert_eq!(answer["jobs"][1]["id"], held[0].id());
    assert!(answer["jobs"][1].get("error").is_none(), "{answer}");
    for (job, wanted) in held.iter().zip(["succeeded", "running", "succeeded", "running"]) {
        assert_eq!(status(&world, TENANT_A, job.id()).await, wanted);
    }

    // Nothing but bad rows is no malformed request either; and those of a bound worker need not name their tenant.
    bad.truncate(2);
    let body = json!({ "lease_id": held[0].0["lease_id"], "jobs": [bad[0].0, bad[1].0] });
    told(&agent.post("/worker/jobs/complete", body).await.expect(200), &bad);
    // What cannot be stored is told with its place, too.
    let mut nul = held[3].row();
    nul["result"] = json!("a\u{0}b");
    let body = json!({ "lease_id": held[0].0["lease_id"], "jobs": [nul] });
    let row = agent.post("/worker/jobs/complete", body).await.expect(200)["jobs"][0].clone();
    assert_eq!((&row["verdict"], &row["error"]["reason"]), (&json!("invalid"), &json!("result_invalid")));
    assert_eq!((&row["id"], &row["error"]["code"]), (&json!(held[3].id()), &json!("JF003")));
    assert_eq!(row["error"]["errors"][0]["path"], "/jobs/0/result");
}

#[tokio::test]
async fn a_completion_beyond_the_bounds_of_json_takes_no_other_along() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 2).await;
    let agent = Agent::of_all(&world).await;
    let held = agent.claim(2).await;
    let (lease, good) = (&held[0].0["lease_id"], held[1].row());
    let names = |result: &str| {
        format!(r#"{{"tenant_id": "{TENANT_A}", "id": "{}", "fence": 1, "result": {result}}}"#, held[0].id())
    };
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let rows = [names("1e999"), names(&deep), good.to_string()].join(",");
    let request = Request::post("/api/v1/worker/jobs/complete")
        .header("authorization", format!("Bearer {}", agent.key.text))
        .header("content-type", "application/json");
    let body = format!(r#"{{"lease_id": {lease}, "jobs": [{rows}]}}"#);
    let answer = world.request(request.body(body.into()).unwrap()).await.expect(200);
    for (at, reason) in ["number_too_long", "body_too_deep"].into_iter().enumerate() {
        let row = &answer["jobs"][at];
        assert_eq!((&row["error"]["reason"], &row["id"]), (&json!(reason), &json!(held[0].id())), "{answer}");
        assert_eq!(row["error"]["errors"][0]["path"], format!("/jobs/{at}"));
    }
    assert_eq!(verdicts(&answer), ["done"]);
    assert_eq!(status(&world, TENANT_A, held[0].id()).await, "running");
}

#[tokio::test]
async fn failures_that_are_none_take_no_other_along() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 3).await;
    let agent = Agent::of_all(&world).await;
    let held = agent.claim(3).await;
    let mut bad = bad_rows(&held[2]);
    for (name, value, reason, place) in [
        ("class", json!("maybe"), "body_invalid", "/class"),
        ("status", json!("done"), "body_invalid", "/status"),
        ("retry_after_seconds", json!(-1), "retry_after_out_of_range", "/retry_after_seconds"),
    ] {
        let mut row = held[2].row();
        row[name] = value;
        bad.push((row, reason, place));
    }
    let mut good: Vec<Value> = held[..2].iter().map(Held::row).collect();
    good[0]["class"] = json!("permanent");
    let body = json!({ "lease_id": held[0].0["lease_id"], "jobs": mixed(&bad, &good) });
    let answer = agent.post("/worker/jobs/fail", body).await.expect(200);
    told(&answer, &bad);
    assert_eq!(verdicts(&answer), ["done", "done"]);
    assert_eq!(
        (&answer["jobs"][1]["status"], &answer["jobs"][3]["status"]),
        (&json!("failed"), &json!("queued"))
    );
    assert_eq!(status(&world, TENANT_A, held[2].id()).await, "running");
}

#[tokio::test]
async fn rows_that_are_none_give_nothing_back_and_keep_nothing_from_it() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 3).await;
    let agent = Agent::of_all(&world).await;
    let held = agent.claim(3).await;
    let lease = &held[0].0["lease_id"];
    let bad = bad_rows(&held[2]);
    let good: Vec<Value> = held[..2].iter().map(Held::row).collect();
    let release = async |rows: Vec<Value>| {
        let body = json!({ "lease_id": lease, "jobs": rows });
        agent.post("/worker/jobs/release", body).await.expect(200)
    };
    // A list without a good row is not a missing list, which would give all back.
    told(&release(mixed(&bad, &[])).await, &bad);
    assert_eq!(status(&world, TENANT_A, held[0].id()).await, "running");
    let answer = release(mixed(&bad, &good)).await;
    told(&answer, &bad);
    assert_eq!(verdicts(&answer), ["done", "done"]);
    for (job, wanted) in held.iter().zip(["queued", "queued", "running"]) {
        assert_eq!(status(&world, TENANT_A, job.id()).await, wanted);
    }
}

#[tokio::test]
async fn a_beat_keeps_the_lease_whatever_its_rows_are() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 1).await;
    let agent = Agent::of_all(&world).await;
    let job = agent.claim_one().await;
    let bad = bad_rows(&job);
    let stranger = json!({ "tenant_id": TENANT_A, "id": STRANGER, "fence": 1 });
    let rows = mixed(&bad, &[job.row(), stranger]);
    let beat = async |rows: &[Value]| {
        let body = json!({ "lease_id": job.0["lease_id"], "jobs": rows });
        agent.post("/worker/heartbeat", body).await.expect(200)
    };
    let answer = beat(&rows).await;
    assert_eq!((&answer["canceled"], &answer["lost"][0]["id"]), (&json!([]), &json!(STRANGER)), "{answer}");
    let invalid = answer["invalid"].as_array().unwrap();
    assert_eq!(invalid.len(), bad.len(), "{answer}");
    for (told, (given, reason, place)) in invalid.iter().zip(&bad) {
        let at = usize::try_from(told["row"].as_u64().unwrap()).unwrap();
        assert_eq!(rows[at], *given);
        assert_eq!(told["error"]["reason"], *reason, "{told}");
        assert_eq!(told["error"]["errors"][0]["path"], format!("/jobs/{at}{place}"));
    }
    let sound = beat(&[job.row()]).await;
    assert_eq!((sound.get("invalid"), &sound["lost"]), (None, &json!([])));
    assert!(sound["expires_at"].is_string());
}

#[tokio::test]
async fn lines_that_are_none_keep_no_other_from_the_log() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 1).await;
    let agent = Agent::of_all(&world).await;
    let job = agent.claim_one().await;
    let lines = json!([
        { "level": "loud", "message": "m" },
        { "level": "info", "message": "first" },
        { "level": "info" },
        "a line",
        { "level": "warn", "message": "second" },
        { "level": "info", "message": 7 },
    ]);
    let answer = agent.report("log", &job, json!({ "lines": lines })).await.expect(200);
    assert_eq!(answer["kept"], 2, "{answer}");
    let told: Vec<(u64, &str)> = answer["invalid"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["row"].as_u64().unwrap(), line["error"]["errors"][0]["path"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [(0, "/lines/0/level"), (2, "/lines/2/message"), (3, "/lines/3"), (5, "/lines/5/message")]
    );
    let viewer = world.key(jobforge_core::Role::TenantViewer).await;
    let log = world.get(&viewer, &format!("/jobs/{}/logs", job.id())).await.expect(200);
    let kept: Vec<&str> =
        log["lines"].as_array().unwrap().iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(kept, ["first", "second"]);
    let many: Vec<Value> = vec![json!({ "level": "info", "message": "m" }); 5001];
    agent.report("log", &job, json!({ "lines": many })).await.refused(400, "JF102", "batch_size");
}

/// What is wrong with the whole is told once, and nothing is carried out.
#[tokio::test]
async fn a_batch_that_is_none_is_refused_as_a_whole() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 1).await;
    let agent = Agent::of_all(&world).await;
    let job = agent.claim_one().await;
    let lease = &job.0["lease_id"];
    for path in ["/worker/jobs/complete", "/worker/jobs/fail", "/worker/jobs/release", "/worker/heartbeat"] {
        let many: Vec<Value> = vec![job.row(); 5001];
        let refused = async |body: Value, reason: &str| {
            agent.post(path, body).await.refused(400, "JF102", reason);
        };
        refused(json!({ "lease_id": lease, "jobs": many }), "batch_size").await;
        refused(json!({ "lease_id": lease, "jobs": job.row() }), "body_invalid").await;
        refused(json!({ "lease_id": "lease", "jobs": [job.row()] }), "body_invalid").await;
        refused(json!([job.row()]), "body_invalid").await;
        let request = Request::post(format!("/api/v1{path}"))
            .header("authorization", format!("Bearer {}", agent.key.text))
            .header("content-type", "application/json");
        let broken = format!(r#"{{"lease_id": {lease}, "jobs": [{}, {{]}}"#, job.row());
        let answer = world.request(request.body(broken.into()).unwrap()).await;
        answer.refused(400, "JF102", "body_malformed");
    }
    assert_eq!(status(&world, TENANT_A, job.id()).await, "running");
}
