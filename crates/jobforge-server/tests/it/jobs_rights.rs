//! Who may do what to jobs, and that a foreign job or operation looks like one that never was.

use axum::http::Method;
use jobforge_core::rpc::{enqueue_job, start_bulk};
use jobforge_core::{BulkFilter, BulkKind, NewJob, Redrive, Role};
use jobforge_testkit::{NOOP, TENANT_A, TENANT_B};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::jobs_cast::{Cast, raw};

const LOOK: &[Role] = &[Role::TenantAdmin, Role::TenantViewer, Role::Producer];
const READ: &[Role] = &[Role::TenantAdmin, Role::TenantViewer];
const OPERATE: &[Role] = &[Role::TenantAdmin];
const ROLES: [Role; 4] = [Role::TenantAdmin, Role::TenantViewer, Role::Producer, Role::Worker];

/// Every route: who may, and its body where it has one. `{job}` and `{bulk}` stand for ids.
fn routes() -> Vec<(Method, &'static str, &'static [Role], Option<Value>)> {
    let cancel =
        json!({ "kind": "cancel", "filter": { "statuses": ["queued"] }, "reason": "r", "dry_run": true });
    vec![
        (Method::GET, "/jobs", READ, None),
        (Method::GET, "/jobs/summary", READ, None),
        (Method::GET, "/jobs/{job}", LOOK, None),
        (Method::GET, "/jobs/{job}/attempts", LOOK, None),
        (Method::GET, "/jobs/{job}/logs", LOOK, None),
        (Method::GET, "/jobs/{job}/result", LOOK, None),
        (Method::GET, "/jobs/{job}/wait?timeout_seconds=0", LOOK, None),
        (Method::GET, "/jobs/{job}/explain", LOOK, None),
        (Method::POST, "/jobs/{job}/reschedule", OPERATE, Some(json!({ "max_attempts": 2 }))),
        (Method::POST, "/jobs/{job}/redrive", OPERATE, None),
        (Method::POST, "/jobs/{job}/retry", OPERATE, None),
        (Method::POST, "/jobs/{job}/cancel", OPERATE, None),
        (Method::GET, "/dead-letters", READ, None),
        (Method::GET, "/dead-letters/groups", READ, None),
        (Method::POST, "/bulk", OPERATE, Some(cancel)),
        (Method::GET, "/bulk", READ, None),
        (Method::GET, "/bulk/{bulk}", READ, None),
        (Method::GET, "/bulk/{bulk}/results", READ, None),
        (Method::POST, "/bulk/{bulk}/resume", OPERATE, None),
        (Method::POST, "/bulk/{bulk}/undo", OPERATE, None),
        (Method::GET, "/series", READ, None),
    ]
}

#[tokio::test]
async fn each_role_may_what_it_may_and_nothing_else() {
    let cast = Cast::new().await;
    let (job, bulk) = things(&cast).await;
    for role in ROLES {
        let key = cast.world.key(role).await;
        for (method, path, may, body) in routes() {
            let path = path.replace("{job}", &job.to_string()).replace("{bulk}", &bulk.to_string());
            let answer = cast.world.send(Some(&key), method.clone(), &path, body).await;
            if may.contains(&role) {
                assert!(
                    ![401, 403, 404, 405, 500].contains(&answer.status.as_u16()),
                    "{role} {method} {path}: {answer:?}"
                );
            } else {
                answer.refused(403, "JF009", "role_insufficient");
            }
        }
    }
    for (method, path, _, body) in routes() {
        let path = path.replace("{job}", &job.to_string()).replace("{bulk}", &bulk.to_string());
        cast.world.send(None, method, &path, body).await.refused(401, "JF101", "credential_invalid");
    }
}

#[tokio::test]
async fn what_belongs_to_another_tenant_looks_like_what_never_was() {
    let cast = Cast::new().await;
    let (job, bulk) = things(&cast).await;
    let before = cast.get(&format!("/jobs/{job}")).await.bytes;
    let b = cast.world.key_of_b(Role::TenantAdmin).await;
    let unknown = Uuid::now_v7().to_string();
    for (method, path, _, body) in routes().into_iter().filter(|route| route.1.contains('{')) {
        let own = path.replace("{job}", &job.to_string()).replace("{bulk}", &bulk.to_string());
        let none = path.replace("{job}", &unknown).replace("{bulk}", &unknown);
        let foreign = cast.world.send(Some(&b), method.clone(), &own, body.clone()).await;
        let absent = cast.world.send(Some(&b), method.clone(), &none, body).await;
        let text = |bytes: &[u8], id: &str| String::from_utf8_lossy(bytes).replace(id, "ID");
        let ids = (job.to_string(), bulk.to_string());
        let told = text(text(&foreign.bytes, &ids.0).as_bytes(), &ids.1);
        assert_eq!(told, text(&absent.bytes, &unknown), "{method} {path}");
        let reason = if path.contains("{job}") { "job_unknown" } else { "bulk_unknown" };
        foreign.refused(404, "JF007", reason);
    }
    for path in ["/jobs", "/dead-letters", "/bulk", "/dead-letters/groups", "/series"] {
        let list = cast.world.get(&b, path).await.expect(200);
        let rows = list.as_object().unwrap().values().find_map(Value::as_array).unwrap();
        assert!(rows.is_empty(), "{path}: {list}");
    }
    assert_eq!(cast.world.get(&b, "/jobs/summary").await.expect(200)["ready"], 0);
    assert_eq!(cast.get(&format!("/jobs/{job}")).await.bytes, before);
    assert_eq!(cast.get(&format!("/bulk/{bulk}")).await.expect(200)["status"], "running");
}

#[tokio::test]
async fn an_operation_touches_its_own_tenants_jobs_alone() {
    let cast = Cast::new().await;
    let own = cast.queued().await;
    let foreign = enqueue_job(&cast.app, TENANT_B, &NewJob::raw(NOOP, raw(json!({})))).await.unwrap().id;
    let b = cast.world.key_of_b(Role::TenantAdmin).await;
    let input =
        json!({ "kind": "cancel", "filter": { "statuses": ["queued"] }, "reason": "r", "dry_run": true });
    assert_eq!(cast.post("/bulk", input).await.expect(200)["matched"], 1);
    assert_eq!(cast.status(own).await, "queued");
    assert_eq!(cast.world.get(&b, &format!("/jobs/{foreign}")).await.expect(200)["status"], "queued");
}

/// A waiting job and an operation that runs.
async fn things(cast: &Cast) -> (Uuid, Uuid) {
    let filter = BulkFilter { statuses: Some(vec!["failed".to_owned()]), ..BulkFilter::default() };
    let kind = BulkKind::Redrive(Redrive::default());
    let bulk = start_bulk(&cast.app, TENANT_A, &kind, &filter).await.unwrap();
    (cast.queued().await, bulk.id)
}
