//! Who may what of administration; and shorter ways to ask, for the files beside this one.

use axum::body::Body;
use axum::http::{Method, Request};
use jobforge_core::Role;
use jobforge_server::auth::{Right, may};
use jobforge_testkit::{NOOP, TENANT_A};
use serde_json::{Value, json};

use crate::world::{Answer, Key, World};

const ROLES: [Role; 5] =
    [Role::SuperAdmin, Role::TenantAdmin, Role::TenantViewer, Role::Producer, Role::Worker];

pub(crate) async fn put(world: &World, key: &Key, path: &str, body: Value) -> Answer {
    world.send(Some(key), Method::PUT, path, Some(body)).await
}

pub(crate) async fn delete(world: &World, key: &Key, path: &str) -> Answer {
    world.send(Some(key), Method::DELETE, path, None).await
}

/// A request with headers of its own.
pub(crate) async fn with_headers(
    world: &World,
    key: &Key,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("/api/v1{path}"))
        .header("authorization", format!("Bearer {}", key.text))
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.request(request.body(Body::from(body.to_string())).unwrap()).await
}

/// The newest entry of everybody's audit log about this subject.
pub(crate) async fn last_audit(world: &World, kind: &str, id: &str) -> Value {
    let key = world.key(Role::SuperAdmin).await;
    let path = format!("/admin/audit?subject_kind={kind}&limit=1000");
    let page = world.get(&key, &path).await.expect(200);
    let entries = page["entries"].as_array().unwrap();
    entries.iter().find(|entry| entry["subject_id"] == id).cloned().unwrap_or_default()
}

/// That a key did this, by its name.
#[track_caller]
pub(crate) fn assert_by(entry: &Value, action: &str, key: &Key, role: Role) {
    assert_eq!(entry["action"], action, "{entry}");
    assert_eq!(entry["credential"], format!("key jf_{} ({role})", key.id), "{entry}");
    assert!(entry["request_id"].as_str().is_some_and(|id| !id.is_empty()), "{entry}");
}

/// Every route with the right it asks for, and a body that would do where it takes one.
fn routes() -> Vec<(Method, String, Right, Option<Value>)> {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let pause = json!({ "kind": "queue", "name": "default" });
    let rows = [
        (&get, "/admin/jobs/definitions".to_owned(), Right::Read, None),
        (&post, "/admin/jobs/definitions".to_owned(), Right::Super, Some(json!({ "key": "table.new" }))),
        (&get, format!("/admin/jobs/definitions/{NOOP}"), Right::Read, None),
        (&put, format!("/admin/jobs/definitions/{NOOP}"), Right::Super, Some(json!({}))),
        (&delete, format!("/admin/jobs/definitions/{NOOP}"), Right::Super, None),
        (&get, "/admin/tenants".to_owned(), Right::Super, None),
        (&get, format!("/admin/tenants/{TENANT_A}"), Right::Super, None),
        (&put, format!("/admin/tenants/{TENANT_A}"), Right::Super, Some(json!({}))),
        (&get, "/admin/pauses".to_owned(), Right::Super, None),
        (&post, "/admin/pauses".to_owned(), Right::Super, Some(pause)),
        (&delete, "/admin/pauses/queue/default".to_owned(), Right::Super, None),
        (&get, "/admin/keys".to_owned(), Right::Administer, None),
        (&post, "/admin/keys".to_owned(), Right::Administer, Some(json!({ "role": "worker" }))),
        (&delete, "/admin/keys/000000000000".to_owned(), Right::Administer, None),
        (&get, "/admin/connectors".to_owned(), Right::Administer, None),
        (&get, "/admin/connectors/crm".to_owned(), Right::Administer, None),
        (&put, "/admin/connectors/crm".to_owned(), Right::Administer, Some(json!({}))),
        (&post, "/admin/connectors/crm/enable".to_owned(), Right::Administer, None),
        (&delete, "/admin/connectors/crm".to_owned(), Right::Administer, None),
        (&get, "/admin/workers".to_owned(), Right::Super, None),
        (&get, "/admin/queues".to_owned(), Right::Super, None),
        (&get, "/admin/system".to_owned(), Right::Super, None),
        (&get, "/admin/series".to_owned(), Right::Super, None),
        (&get, "/admin/audit".to_owned(), Right::Super, None),
        (&get, "/audit".to_owned(), Right::Read, None),
    ];
    rows.into_iter().map(|(method, path, right, body)| (method.clone(), path, right, body)).collect()
}

#[tokio::test]
async fn each_role_reaches_the_routes_of_its_rights_and_no_other() {
    let world = World::new().await;
    for (method, path, _, body) in routes() {
        let answer = world.send(None, method, &path, body).await;
        answer.refused(401, "JF101", "credential_invalid");
    }
    for role in ROLES {
        let key = world.key(role).await;
        for (method, path, right, body) in routes() {
            let answer = world.send(Some(&key), method.clone(), &path, body).await;
            if may(role, right) {
                // A super-admin names no tenant here, and some of these things are not there.
                assert!(
                    [200, 201, 400, 404].contains(&answer.status.as_u16()),
                    "{role} {method} {path}: {answer:?}"
                );
                assert_ne!(answer.json()["reason"], "role_insufficient");
            } else {
                answer.refused(403, "JF009", "role_insufficient");
            }
        }
    }
}
