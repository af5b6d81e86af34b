//! A worker's credential of one tenant works there and nowhere else; what it asks about others is not known.

use jobforge_core::Role;
use jobforge_testkit::{TENANT_A, TENANT_B};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::worker_agent::{Agent, Held, enqueue, jobs, status};
use crate::world::{Answer, World};

#[tokio::test]
async fn a_worker_of_one_tenant_claims_only_its_jobs_and_one_of_all_claims_all() {
    let world = World::new().await;
    let (of_a, of_b) = (enqueue(&world, TENANT_A, 2).await, enqueue(&world, TENANT_B, 2).await);
    let a = Agent::of_a(&world).await;
    let held = a.claim(10).await;
    assert_eq!(held.iter().map(|job| job.id().to_owned()).collect::<Vec<_>>(), of_a);
    assert!(held.iter().all(|job| job.0["tenant_id"] == json!(TENANT_A)));
    // It need not say whose they are.
    let row = json!({ "lease_id": held[0].0["lease_id"], "fence": 1 });
    a.post(&format!("/worker/jobs/{}/complete", held[0].id()), row).await.expect(200);

    enqueue(&world, TENANT_A, 1).await;
    let all = Agent::of_all(&world).await;
    let held = all.claim(10).await;
    assert_eq!(held.len(), 3);
    for job in held {
        all.report("complete", &job, json!({})).await.expect(200);
    }
    assert_eq!(status(&world, TENANT_B, &of_b[1]).await, "succeeded");
}

#[tokio::test]
async fn a_foreign_job_is_unknown_to_a_worker_of_another_tenant() {
    let world = World::new().await;
    enqueue(&world, TENANT_B, 1).await;
    let (a, b) = (Agent::of_a(&world).await, Agent::new(&world, Some(TENANT_B)).await);
    let foreign = b.claim_one().await;
    let unknown = Held({
        let mut job = foreign.0.clone();
        job["id"] = json!(Uuid::new_v4());
        job
    });
    // With everything that B's worker knows, and without saying whose it is.
    for tenant in [json!(TENANT_B), json!(null)] {
        for (verb, more) in reports() {
            let mut more: Value = more;
            more["tenant_id"] = tenant.clone();
            let about_one = a.report(verb, &foreign, more.clone()).await;
            let about_none = a.report(verb, &unknown, more).await;
            assert_eq!(told(&about_one, &foreign), told(&about_none, &unknown), "{verb}");
            match verb {
                "heartbeat" => about_one.refused(409, "JF006", "lease_lost"),
                _ => about_one.refused(404, "JF007", "job_unknown"),
            };
        }
    }
    for route in ["complete", "fail", "release"] {
        let body = json!({ "lease_id": foreign.0["lease_id"], "jobs": [foreign.row(), unknown.row()] });
        let answer = a.post(&format!("/worker/jobs/{route}"), body).await.expect(200);
        let verdicts: Vec<_> = answer["jobs"].as_array().unwrap().iter().map(|row| &row["verdict"]).collect();
        assert_eq!(verdicts, ["unknown", "unknown"], "{route}");
    }
    b.report("complete", &foreign, json!({})).await.expect(200);
}

#[tokio::test]
async fn a_foreign_lease_is_no_lease_to_a_worker_of_another_tenant() {
    let world = World::new().await;
    enqueue(&world, TENANT_A, 2).await;
    enqueue(&world, TENANT_B, 2).await;
    let (a, all) = (Agent::of_a(&world).await, Agent::of_all(&world).await);
    let held = all.claim(2).await;
    let lease = json!({ "lease_id": held[0].0["lease_id"] });
    a.try_claim(10, lease.clone()).await.refused(409, "JF006", "lease_lost");
    a.post("/worker/heartbeat", lease.clone()).await.refused(409, "JF006", "lease_lost");
    a.post("/worker/jobs/release", lease.clone()).await.refused(409, "JF006", "lease_lost");
    // On its own lease it goes on.
    let own = a.try_claim(1, json!({})).await.expect(200);
    let more = a.try_claim(10, json!({ "lease_id": own["lease_id"] })).await.expect(200);
    assert!(jobs(&more).iter().all(|job| job.0["tenant_id"] == json!(TENANT_A)));
    for job in &held {
        all.report("complete", job, json!({})).await.expect(200);
    }
}

/// The connection that served a worker of one tenant serves one of all right after.
#[tokio::test]
async fn what_narrows_one_request_narrows_no_other() {
    let world = World::with(|config| config.connections = 1).await;
    let (a, all) = (Agent::of_a(&world).await, Agent::of_all(&world).await);
    for _ in 0..3 {
        enqueue(&world, TENANT_A, 1).await;
        enqueue(&world, TENANT_B, 1).await;
        let held = a.claim(10).await;
        assert_eq!(held.len(), 1);
        a.report("complete", &held[0], json!({})).await.expect(200);
        let held = all.claim(10).await;
        assert_eq!(held.iter().map(|job| job.0["tenant_id"].clone()).collect::<Vec<_>>(), [json!(TENANT_B)]);
        all.report("complete", &held[0], json!({})).await.expect(200);
    }
}

#[tokio::test]
async fn a_revoked_workers_key_is_refused() {
    let world = World::new().await;
    let key = world.key_of(Role::Worker, Some(TENANT_A)).await;
    world.revoke(&key).await;
    let answer = world.post(&key, "/worker/stop", json!({ "worker_id": "w" })).await;
    answer.refused(401, "JF101", "credential_invalid");
}

/// An answer, with the job's id taken out.
fn told(answer: &Answer, job: &Held) -> (u16, String) {
    (answer.status.as_u16(), String::from_utf8_lossy(&answer.bytes).replace(job.id(), "ID"))
}

fn reports() -> Vec<(&'static str, Value)> {
    vec![
        ("heartbeat", json!({})),
        ("complete", json!({ "result": 1 })),
        ("fail", json!({})),
        ("snooze", json!({ "seconds": 1 })),
        ("release", json!({})),
        ("progress", json!({ "percent": 1 })),
        ("log", json!({ "lines": [{ "level": "info", "message": "m" }] })),
        ("exit", json!({ "pid": 1 })),
    ]
}
