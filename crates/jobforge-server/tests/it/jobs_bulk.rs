//! Operations on many jobs: the server brings them to their end.

use std::time::Duration;

use jobforge_core::rpc::{list_audit, start_bulk, undo_bulk};
use jobforge_core::{AuditFilter, BulkFilter, BulkKind, Redrive};
use jobforge_testkit::TENANT_A;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::jobs_cast::Cast;

/// More than one step does.
const MANY: usize = 501;

#[tokio::test]
async fn many_dead_letters_are_redriven_and_that_is_undone() {
    let cast = Cast::new().await;
    let dead = cast.dead(&vec!["broke"; MANY]).await;
    let input = json!({ "kind": "redrive", "filter": { "statuses": ["failed"] }, "reason": "fixed", "max_attempts": 7 });
    let mut dry = input.clone();
    dry["dry_run"] = json!(true);
    let counted = cast.post("/bulk", dry).await.expect(200);
    assert_eq!(
        (&counted["matched"], &counted["done"], &counted["status"]),
        (&json!(MANY), &json!(0), &json!("finished"))
    );
    assert_eq!(cast.status(dead[0]).await, "failed");

    let answer = cast.post("/bulk", input).await;
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    let started = answer.expect(202);
    let path = format!("/bulk/{}", started["id"].as_str().unwrap());
    assert_eq!(location, format!("/api/v1{path}"));
    let finished = until(&cast, &path, "finished").await;
    assert_eq!((&finished["done"], &finished["skipped"]), (&json!(MANY), &json!(0)));
    assert_eq!(cast.status(dead[MANY - 1]).await, "queued");

    let page = cast.get(&format!("{path}/results?limit=500")).await.expect(200);
    assert_eq!(page["results"].as_array().unwrap().len(), 500);
    assert_eq!(page["results"][0]["verdict"], "redriven");
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = cast.get(&format!("{path}/results?limit=500&cursor={cursor}")).await.expect(200);
    assert_eq!((rest["results"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &json!(null)));

    cast.post_nothing(&format!("{path}/undo")).await.expect(202);
    let undone = until(&cast, &path, "undone").await;
    assert_eq!((&undone["undone"], &undone["kept"]), (&json!(MANY), &json!(0)));
    assert_eq!(cast.status(dead[0]).await, "failed");
    cast.post_nothing(&format!("{path}/undo")).await.expect(200);

    let list = cast.get("/bulk?limit=1").await.expect(200);
    assert_eq!(list["operations"][0]["id"], started["id"]);
    let cursor = list["next_cursor"].as_str().unwrap();
    let older = cast.get(&format!("/bulk?limit=1&cursor={cursor}")).await.expect(200);
    assert_eq!(older["operations"][0]["id"], counted["id"]);

    // Whoever asked is named also where the server went on alone.
    let log = list_audit(&cast.app, TENANT_A, &AuditFilter::default()).await.unwrap();
    for action in ["start_bulk", "finish_bulk", "undo_bulk"] {
        let entry = log.entries.iter().find(|entry| entry.action == action).unwrap();
        assert!(entry.credential.as_deref().unwrap().contains(&cast.admin.id), "{action}");
    }
}

#[tokio::test]
async fn waiting_jobs_are_canceled_by_filter() {
    let cast = Cast::new().await;
    let (a, b) = (cast.queued().await, cast.queued().await);
    let input = json!({ "kind": "cancel", "filter": { "definition_key": "test.noop", "statuses": ["queued"] }, "reason": "not needed" });
    let started = cast.post("/bulk", input).await.expect(202);
    let path = format!("/bulk/{}", started["id"].as_str().unwrap());
    assert_eq!(until(&cast, &path, "finished").await["done"], 2);
    assert_eq!((cast.status(a).await, cast.status(b).await), ("canceled".to_owned(), "canceled".to_owned()));
    cast.post_nothing(&format!("{path}/undo")).await.refused(409, "JF008", "bulk_not_undoable");
}

#[tokio::test]
async fn an_operation_that_a_server_left_is_resumed() {
    let cast = Cast::new().await;
    let dead = cast.dead(&vec!["broke"; MANY]).await;
    let filter = BulkFilter { statuses: Some(vec!["failed".to_owned()]), ..BulkFilter::default() };
    let kind = BulkKind::Redrive(Redrive::default());
    let left = start_bulk(&cast.app, TENANT_A, &kind, &filter).await.unwrap();
    let path = format!("/bulk/{}", left.id);
    assert_eq!(cast.get(&path).await.expect(200)["status"], "running");
    let resume = format!("{path}/resume");
    assert_eq!(cast.post_nothing(&resume).await.expect(202)["id"], json!(left.id));
    // Once more does no harm.
    cast.post_nothing(&resume).await;
    assert_eq!(until(&cast, &path, "finished").await["done"], MANY);
    assert_eq!(cast.status(dead[0]).await, "queued");
    cast.post_nothing(&resume).await.expect(200);

    // An undoing that was left goes on as an undoing.
    let undoing = undo_bulk(&cast.app, TENANT_A, left.id, 1).await.unwrap();
    assert_eq!(undoing.status, "undoing");
    cast.post_nothing(&resume).await.expect(202);
    assert_eq!(until(&cast, &path, "undone").await["undone"], MANY);
}

#[tokio::test]
async fn what_is_no_operation_is_refused_and_nothing_is_recorded() {
    let cast = Cast::new().await;
    let id = cast.queued().await;
    let refused = async |body: Value, code: &str, reason: &str| {
        cast.post("/bulk", body).await.refused(400, code, reason);
    };
    let all = json!({ "statuses": ["queued"] });
    refused(json!({ "kind": "cancel", "filter": {}, "reason": "r" }), "JF001", "filter_empty").await;
    refused(
        json!({ "kind": "cancel", "filter": { "type": null, "queue": "default" }, "reason": "r" }),
        "JF102",
        "body_invalid",
    )
    .await;
    refused(json!({ "kind": "cancel", "filter": { "typo": "x" }, "reason": "r" }), "JF102", "body_invalid")
        .await;
    refused(
        json!({ "kind": "cancel", "filter": { "type": "\u{0}" }, "reason": "r" }),
        "JF001",
        "filter_malformed",
    )
    .await;
    refused(
        json!({ "kind": "cancel", "filter": { "statuses": ["succeeded"] }, "reason": "r" }),
        "JF001",
        "status_unknown",
    )
    .await;
    refused(json!({ "kind": "redrive", "filter": all, "reason": "r" }), "JF001", "status_unknown").await;
    refused(json!({ "kind": "delete", "filter": all, "reason": "r" }), "JF102", "body_invalid").await;
    refused(json!({ "kind": "cancel", "filter": all }), "JF102", "body_invalid").await;
    refused(json!({ "kind": "cancel", "filter": all, "reason": " " }), "JF001", "reason_length").await;
    refused(json!({ "kind": "cancel", "filter": all, "reason": "r".repeat(501) }), "JF001", "reason_length")
        .await;
    refused(json!({ "kind": "cancel", "filter": all, "reason": "r", "patch": [] }), "JF001", "redrive_only")
        .await;
    refused(
        json!({ "kind": "cancel", "filter": all, "reason": "r", "max_attempts": 1 }),
        "JF001",
        "redrive_only",
    )
    .await;
    assert_eq!(cast.get("/bulk").await.expect(200), json!({ "operations": [], "next_cursor": null }));
    assert_eq!(cast.status(id).await, "queued");
    cast.get("/bulk?limit=0").await.refused(400, "JF001", "limit_out_of_range");
    cast.get("/bulk?cursor=x").await.refused(400, "JF102", "cursor_malformed");
    cast.get(&format!("/bulk/{}/results", Uuid::now_v7())).await.refused(404, "JF007", "bulk_unknown");
}

/// The operation, once it is this; the server works beside the test.
async fn until(cast: &Cast, path: &str, status: &str) -> Value {
    for _ in 0..600 {
        let bulk = cast.get(path).await.expect(200);
        if bulk["status"] == status {
            return bulk;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} never was {status}");
}
