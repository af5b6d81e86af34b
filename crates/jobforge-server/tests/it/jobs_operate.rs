//! What people do to one job: cancel, retry, reschedule, redrive.

use jobforge_core::rpc::list_audit;
use jobforge_core::{AuditFilter, NewJob};
use jobforge_testkit::{NOOP, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::jobs_cast::{Cast, raw};

#[tokio::test]
async fn a_waiting_job_is_canceled_and_a_running_one_asked_to_stop() {
    let cast = Cast::new().await;
    let id = cast.queued().await;
    let done = cast.post(&format!("/jobs/{id}/cancel"), json!({ "reason": "not needed" })).await.expect(200);
    assert_eq!(done, json!({ "id": id, "status": "canceled", "cancel_requested": false }));
    let job = cast.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!((&job["status"], &job["error"]), (&json!("canceled"), &json!("not needed")));
    cast.post_nothing(&format!("/jobs/{id}/cancel")).await.refused(409, "JF008", "job_canceled");

    let running = cast.running().await.job.id;
    let done = cast.post_nothing(&format!("/jobs/{running}/cancel")).await.expect(200);
    assert_eq!((&done["status"], &done["cancel_requested"]), (&json!("running"), &json!(true)));

    // The log names the credential, not only the server's login.
    let log = list_audit(&cast.app, TENANT_A, &AuditFilter::default()).await.unwrap();
    let canceled = log.entries.iter().find(|entry| entry.action == "cancel").unwrap();
    assert!(canceled.credential.as_deref().unwrap().contains(&cast.admin.id));
    assert!(canceled.request_id.is_some());
}

#[tokio::test]
async fn a_dead_letter_runs_again_and_a_waiting_job_moves_in_time() {
    let cast = Cast::new().await;
    let dead = cast.dead(&["broke"]).await[0];
    let done = cast.post(&format!("/jobs/{dead}/retry"), json!({})).await.expect(200);
    assert_eq!((&done["id"], &done["status"]), (&json!(dead), &json!("queued")));
    assert!(done["run_at"].is_string());
    let running = cast.claim().await.remove(0);
    cast.post_nothing(&format!("/jobs/{dead}/retry")).await.refused(409, "JF008", "job_running");
    cast.complete(&running, None).await;
    cast.post_nothing(&format!("/jobs/{dead}/retry")).await.refused(409, "JF008", "job_succeeded");

    let id = cast.queued().await;
    let path = format!("/jobs/{id}/reschedule");
    let at = "2030-01-02T03:04:05Z";
    let done = cast.post(&path, json!({ "scheduled_for": at, "max_attempts": 9 })).await.expect(200);
    assert_eq!(done, json!({ "id": id, "status": "queued", "run_at": at, "max_attempts": 9 }));
    assert_eq!(cast.get(&format!("/jobs/{id}")).await.expect(200)["run_at"], at);
    assert!(cast.claim().await.is_empty());
    cast.post(&path, json!({ "run_at": "2020-01-01T00:00:00Z" })).await.expect(200);
    assert_eq!(cast.claim().await.len(), 1);
}

#[tokio::test]
async fn a_dead_letter_is_edited_on_its_way_back() {
    let cast = Cast::new().await;
    let id = cast.made(NewJob::raw(NOOP, raw(&json!({ "to": "nobody", "n": 1 })))).await;
    let claimed = cast.claim().await.remove(0);
    cast.fail(&claimed, "no such mailbox").await;
    let patch = json!([{ "op": "replace", "path": "/to", "value": "somebody" }]);
    let input = json!({ "patch": patch, "max_attempts": 3, "reason": "a typo" });
    let done = cast.post(&format!("/jobs/{id}/redrive"), input).await.expect(200);
    assert_eq!((&done["id"], &done["status"]), (&json!(id), &json!("queued")));
    let job = cast.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!((&job["payload"], &job["max_attempts"]), (&json!({ "to": "somebody", "n": 1 }), &json!(3)));

    let operation = format!("/bulk/{}", done["operation_id"].as_str().unwrap());
    assert_eq!(cast.get(&operation).await.expect(200)["reason"], "a typo");
    let undone = cast.post_nothing(&format!("{operation}/undo")).await.expect(200);
    assert_eq!((&undone["status"], &undone["undone"]), (&json!("undone"), &json!(1)));
    let job = cast.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!((&job["payload"]["to"], &job["status"]), (&json!("nobody"), &json!("failed")));
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_and_leaves_no_trace() {
    let cast = Cast::new().await;
    let id = cast.queued().await;
    let refused = async |verb: &str, body: Value, (status, code, reason): (u16, &str, &str)| {
        cast.post(&format!("/jobs/{id}/{verb}"), body).await.refused(status, code, reason);
    };
    refused("redrive", json!({}), (409, "JF008", "job_queued")).await;
    refused("redrive", json!({ "patch": [{ "op": "fly", "path": "" }] }), (400, "JF001", "patch_malformed"))
        .await;
    refused(
        "redrive",
        json!({ "patch": [{ "op": "add", "path": "", "value": "\u{0}" }] }),
        (400, "JF001", "patch_malformed"),
    )
    .await;
    refused("redrive", json!({ "max_attempts": 0 }), (400, "JF001", "max_attempts_out_of_range")).await;
    refused("redrive", json!({ "reason": "x".repeat(501) }), (400, "JF001", "reason_length")).await;
    refused("redrive", json!({ "dry_run": true }), (400, "JF102", "body_invalid")).await;
    refused("reschedule", json!({}), (400, "JF001", "nothing_to_change")).await;
    refused("reschedule", json!({ "max_attempts": 1001 }), (400, "JF001", "max_attempts_out_of_range")).await;
    refused("reschedule", json!({ "run_at": "soon" }), (400, "JF102", "body_invalid")).await;
    refused("reschedule", json!({ "priority": 10 }), (400, "JF102", "body_invalid")).await;
    refused("cancel", json!({ "reason": 7 }), (400, "JF102", "body_invalid")).await;
    refused("cancel", json!({ "why": "" }), (400, "JF102", "body_invalid")).await;
    refused("retry", json!({ "now": true }), (400, "JF102", "body_invalid")).await;
    cast.post_nothing(&format!("/jobs/{id}/reschedule")).await.refused(415, "JF102", "content_type");
    cast.post_nothing(&format!("/jobs/{}/redrive", Uuid::now_v7())).await.refused(
        404,
        "JF007",
        "job_unknown",
    );

    assert_eq!(cast.status(id).await, "queued");
    assert_eq!(cast.get("/bulk").await.expect(200)["operations"], json!([]));
    let log = list_audit(&cast.app, TENANT_A, &AuditFilter::default()).await.unwrap();
    let kinds: Vec<&str> = log.entries.iter().filter_map(|entry| entry.subject_kind.as_deref()).collect();
    assert!(!kinds.contains(&"job") && !kinds.contains(&"bulk"), "{kinds:?}");
}

#[tokio::test]
async fn a_change_that_waits_too_long_says_so() {
    let world =
        crate::world::World::with(|config| config.call_timeout = std::time::Duration::from_secs(2)).await;
    let cast = Cast::of(world).await;
    let id = cast.queued().await;
    let holder = cast.world.db.session().await;
    holder.begin().await;
    holder.query("select from jobforge.jobs where id = $1 for update", &[&id]).await.unwrap();
    let answer = cast.post_nothing(&format!("/jobs/{id}/cancel")).await;
    assert!(answer.headers.contains_key("retry-after"));
    let told = answer.refused(503, "JF106", "call_timeout");
    assert!(told["detail"].as_str().unwrap().contains("nothing was changed"), "{told}");
    holder.rollback().await;
    assert_eq!(cast.status(id).await, "queued");
}
