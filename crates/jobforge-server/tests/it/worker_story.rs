//! The whole life of work over HTTP, as a program in any language would live it.

use jobforge_core::{NewJob, Role, rpc};
use jobforge_testkit::{NOOP, TENANT_A};
use serde_json::{Value, json};

use crate::worker_agent::{Agent, Held, enqueue, jobs, status};
use crate::world::World;

#[tokio::test]
async fn a_worker_that_knows_nothing_but_http_does_all_a_worker_does() {
    let world = World::new().await;
    let ids = enqueue(&world, TENANT_A, 4).await;
    let agent = Agent::of_a(&world).await;
    let claim = agent.try_claim(4, json!({ "lease_seconds": 20, "window": 2 })).await.expect(200);
    let held = jobs(&claim);
    assert_eq!(held.iter().map(|job| job.id().to_owned()).collect::<Vec<_>>(), ids, "in claim order");
    assert_eq!((&held[0].0["attempt"], &held[0].0["failures"]), (&json!(1), &json!(0)));
    assert_eq!((&held[0].0["payload"], &held[0].0["solo"]), (&json!({ "n": 0 }), &json!(false)));
    let lease = &claim["lease_id"];
    assert_eq!(&held[0].0["lease_id"], lease);

    // Onto the same lease, with the cursor: there is no more.
    let more = json!({ "lease_id": lease, "cursor": claim["cursor"] });
    let again = agent.try_claim(4, more).await.expect(200);
    assert_eq!((&again["lease_id"], again["jobs"].as_array().unwrap().len()), (lease, 0));

    // The first: beats, progress, log, its program, and a result.
    let first = &held[0];
    let rows: Vec<Value> = held.iter().map(Held::row).collect();
    let beat = json!({ "lease_id": lease, "jobs": rows });
    let beat = agent.post("/worker/heartbeat", beat).await.expect(200);
    assert_eq!((&beat["canceled"], &beat["lost"]), (&json!([]), &json!([])));
    let beat = agent.report("heartbeat", first, json!({})).await.expect(200);
    assert_eq!(beat["canceled"], json!(false));
    agent.report("progress", first, json!({ "percent": 50, "message": "half" })).await.expect(204);
    let lines =
        json!({ "lines": [{ "level": "info", "message": "began" }, { "level": "warn", "message": "slow" }] });
    assert_eq!(agent.report("log", first, lines).await.expect(200), json!({ "kept": 2 }));
    let exit = json!({ "pid": 4711, "exit_code": 0, "stdout_tail": "out" });
    agent.report("exit", first, exit).await.expect(204);
    let viewer = world.key(Role::TenantViewer).await;
    let seen = world.get(&viewer, &format!("/jobs/{}", first.id())).await.expect(200);
    assert_eq!((&seen["status"], &seen["progress_percent"]), (&json!("running"), &json!(50.0)));
    let done = json!({ "result": { "answer": 42 } });
    assert_eq!(agent.report("complete", first, done.clone()).await.expect(200), json!({ "verdict": "done" }));
    assert_eq!(agent.report("complete", first, done).await.expect(200), json!({ "verdict": "already" }));
    assert_eq!(status(&world, TENANT_A, first.id()).await, "succeeded");

    // The second fails and is tried again, the third is put off, the fourth goes back.
    let fail = json!({ "error": "503", "retry_after_seconds": 0, "exit_code": 1, "stderr_tail": "e" });
    let failed = agent.report("fail", &held[1], fail).await.expect(200);
    assert_eq!((&failed["verdict"], &failed["status"]), (&json!("done"), &json!("queued")));
    let snoozed = agent.report("snooze", &held[2], json!({ "seconds": 3600 })).await.expect(200);
    assert!(snoozed["run_at"].is_string());
    assert_eq!(agent.report("release", &held[3], json!({})).await.expect(200), json!({ "verdict": "done" }));
    agent.report("release", &held[3], json!({})).await.refused(409, "JF006", "fence_stale");
    agent.report("snooze", &held[2], json!({ "seconds": 1 })).await.refused(409, "JF006", "fence_stale");
    for id in &ids[1..] {
        assert_eq!(status(&world, TENANT_A, id).await, "queued");
    }
    // A retry waits for no scheduler: the next claim that comes after its time has it.
    world.db.advance_clock(5.0).await;
    let mut next = agent.claim(4).await;
    next.sort_by_key(|job| job.id().to_owned());
    let fences: Vec<_> = next.iter().map(|job| (job.id().to_owned(), job.0["attempt"].clone())).collect();
    assert_eq!(fences, [(ids[1].clone(), json!(2)), (ids[3].clone(), json!(2))]);
    assert_eq!(next[0].0["failures"], json!(1));
}

#[tokio::test]
async fn a_worker_that_was_dead_is_refused_when_it_comes_back() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 1).await;
    let (dead, living) = (Agent::of_a(&world).await, Agent::of_all(&world).await);
    let claim = dead.try_claim(1, json!({ "lease_seconds": 10 })).await.expect(200);
    let old = jobs(&claim).pop().unwrap();
    let scheduler = world.db.as_operator().await;
    // Somebody is alive all the while: a gap in everybody's signs of life would be an outage.
    let mut term = 0;
    for _ in 0..4 {
        term = rpc::lead(&scheduler, "test", 60).await.unwrap().term;
        world.db.advance_clock(4.0).await;
    }

    // Before the reaper came it is over already.
    for (verb, more) in reports() {
        let reason = if verb == "heartbeat" { "lease_lost" } else { "fence_stale" };
        dead.report(verb, &old, more).await.refused(409, "JF006", reason);
    }
    assert_eq!(rpc::reap(&scheduler, term, 100).await.unwrap().deaths, 1);
    world.db.advance_clock(600.0).await;
    let new = living.claim_one().await;
    assert_eq!((new.id(), &new.0["attempt"]), (old.id(), &json!(2)));

    // Its zombie says what it likes; nothing of it counts.
    for (verb, more) in reports() {
        let reason = if verb == "heartbeat" { "lease_lost" } else { "fence_stale" };
        dead.report(verb, &old, more).await.refused(409, "JF006", reason);
    }
    let row = json!({ "lease_id": old.0["lease_id"], "jobs": [old.row()] });
    let answer = dead.post("/worker/jobs/complete", row).await.expect(200);
    assert_eq!(answer["jobs"][0]["verdict"], "stale");
    assert_eq!(status(&world, TENANT_A, old.id()).await, "running");
    living.report("complete", &new, json!({})).await.expect(200);
    assert_eq!(status(&world, TENANT_A, old.id()).await, "succeeded");
}

/// Every report, by its verb.
fn reports() -> Vec<(&'static str, Value)> {
    vec![
        ("heartbeat", json!({})),
        ("complete", json!({})),
        ("fail", json!({})),
        ("snooze", json!({ "seconds": 1 })),
        ("release", json!({})),
        ("progress", json!({ "percent": 1 })),
        ("log", json!({ "lines": [{ "level": "info", "message": "m" }] })),
        ("exit", json!({ "pid": 1 })),
    ]
}

/// By SQL a job comes in unchecked; over HTTP nobody but the server knows its schema.
#[tokio::test]
async fn a_job_that_does_not_fit_its_schema_never_reaches_a_worker() {
    let world = World::new().await;
    let ids = enqueue(&world, TENANT_A, 3).await;
    let operator = world.key(Role::SuperAdmin).await;
    let schema = json!({ "arg_schema": { "properties": { "n": { "enum": [1] } } } });
    crate::admin::put(&world, &operator, &format!("/admin/jobs/definitions/{NOOP}"), schema)
        .await
        .expect(200);

    let agent = Agent::of_a(&world).await;
    let held = agent.claim(3).await;
    assert_eq!(held.iter().map(Held::id).collect::<Vec<_>>(), [&ids[1]]);
    let viewer = world.key(Role::TenantViewer).await;
    for id in [&ids[0], &ids[2]] {
        let job = world.get(&viewer, &format!("/jobs/{id}")).await.expect(200);
        assert_eq!((&job["status"], &job["attempt"]), (&json!("failed"), &json!(1)));
        let error = job["error"].as_str().unwrap();
        assert!(error.starts_with("JF003 the payload does not fit its schema: /n"), "{error}");
    }
    agent.report("complete", &held[0], json!({})).await.expect(200);

    // A lease on which nothing is left is not there any more: its id can be chosen again.
    let lease = json!({ "new_lease_id": uuid::Uuid::new_v4() });
    enqueue_raw(&world, 0).await;
    let none = agent.try_claim(1, lease.clone()).await.expect(200);
    assert_eq!((&none["jobs"], &none["lease_id"]), (&json!([]), &Value::Null));
    enqueue_raw(&world, 1).await;
    let claim = agent.try_claim(1, lease.clone()).await.expect(200);
    assert_eq!((jobs(&claim).len(), &claim["lease_id"]), (1, &lease["new_lease_id"]));
}

/// Enqueues as a program does that calls the function itself.
async fn enqueue_raw(world: &World, n: u8) {
    let job = NewJob::new(NOOP, &json!({ "n": n })).unwrap();
    rpc::enqueue_job(&world.db.as_tenant_a().await, TENANT_A, &job).await.unwrap();
}
