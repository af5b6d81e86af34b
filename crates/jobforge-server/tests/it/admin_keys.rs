//! API keys: made once, told once, revoked for good, and never another tenant's.

use jobforge_core::Role;
use jobforge_testkit::{TENANT_A, TENANT_B};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::admin::{assert_by, delete, last_audit};
use crate::world::{Answer, Key, World};

/// The key that an answer tells.
fn told(answer: Answer) -> Key {
    assert_eq!(answer.headers["cache-control"], "no-store");
    let made = answer.expect(201);
    let text = made["key"].as_str().unwrap().to_owned();
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(text.starts_with(&format!("jf_{id}_")));
    Key { id, name: "told".to_owned(), text }
}

async fn ids(world: &World, key: &Key, query: &str) -> Vec<String> {
    let page = world.get(key, &format!("/admin/keys{query}")).await.expect(200);
    page["keys"].as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_key_is_told_once_works_and_ends_when_it_is_revoked() {
    let world = World::new().await;
    let admin = world.key(Role::TenantAdmin).await;
    let body = json!({ "role": "tenant_viewer", "name": "board", "expires_at": "2099-01-01T00:00:00Z" });
    let made = told(world.post(&admin, "/admin/keys", body).await);
    assert_by(&last_audit(&world, "api_key", &made.id).await, "create_api_key", &admin, Role::TenantAdmin);
    world.get(&made, "/jobs").await.expect(200);

    let listed = world.get(&admin, "/admin/keys").await;
    let text = String::from_utf8(listed.bytes.clone()).unwrap();
    assert!(!text.contains(&made.text[16..]) && !text.contains("sha256"), "{text}");
    let listed = listed.expect(200);
    let key = listed["keys"].as_array().unwrap().iter().find(|key| key["id"] == made.id).unwrap().clone();
    assert_eq!((&key["role"], &key["tenant_id"]), (&json!("tenant_viewer"), &json!(TENANT_A)));
    assert_eq!((&key["name"], &key["expires_at"]), (&json!("board"), &json!("2099-01-01T00:00:00Z")));
    assert_eq!(key["created_by"], format!("key jf_{} (tenant_admin)", admin.id));

    let path = format!("/admin/keys/{}", made.id);
    assert_eq!(delete(&world, &admin, &path).await.expect(200), json!({ "id": made.id, "revoked": true }));
    assert_by(&last_audit(&world, "api_key", &made.id).await, "revoke_api_key", &admin, Role::TenantAdmin);
    world.get(&made, "/jobs").await.refused(401, "JF101", "credential_invalid");
    assert_eq!(delete(&world, &admin, &path).await.expect(200)["revoked"], false);
}

#[tokio::test]
async fn an_administrator_makes_no_key_beyond_its_tenant() {
    let world = World::new().await;
    let admin = world.key(Role::TenantAdmin).await;
    let before = ids(&world, &admin, "").await;
    world.post(&admin, "/admin/keys", json!({ "role": "super_admin" })).await.refused(
        403,
        "JF009",
        "role_insufficient",
    );
    let foreign =
        world.post(&admin, "/admin/keys", json!({ "role": "producer", "tenant_id": TENANT_B })).await;
    let nobody = Uuid::from_u128(9);
    let unknown = world.post(&admin, "/admin/keys", json!({ "role": "producer", "tenant_id": nobody })).await;
    let words =
        |answer: &Answer, id: Uuid| String::from_utf8_lossy(&answer.bytes).replace(&id.to_string(), "ID");
    assert_eq!(words(&foreign, TENANT_B), words(&unknown, nobody));
    foreign.refused(404, "JF007", "tenant_unknown");
    assert_eq!(ids(&world, &admin, "").await, before);
    for role in ["tenant_admin", "tenant_viewer", "producer", "worker"] {
        let made = world.post(&admin, "/admin/keys", json!({ "role": role })).await.expect(201);
        assert_eq!(made["tenant_id"], json!(TENANT_A), "{role}");
    }
}

#[tokio::test]
async fn a_foreign_key_is_neither_seen_nor_revoked() {
    let world = World::new().await;
    let (admin, operator) = (world.key(Role::TenantAdmin).await, world.key(Role::SuperAdmin).await);
    let foreign = world.key_of_b(Role::TenantViewer).await;
    let worker_of_all = world.key_of(Role::Worker, None).await;
    assert_eq!(ids(&world, &admin, "").await, [admin.id.as_str()]);
    for target in [&foreign, &operator, &worker_of_all] {
        let refused = delete(&world, &admin, &format!("/admin/keys/{}", target.id)).await;
        let unknown = delete(&world, &admin, "/admin/keys/000000000000").await;
        let words = String::from_utf8_lossy(&refused.bytes).replace(&target.id, "000000000000");
        assert_eq!(words, String::from_utf8_lossy(&unknown.bytes));
        refused.refused(404, "JF007", "api_key_unknown");
    }
    world.get(&foreign, "/jobs").await.expect(200);
    let path = format!("/admin/keys?tenant_id={TENANT_B}");
    world.get(&admin, &path).await.refused(404, "JF007", "tenant_unknown");
    assert_eq!(ids(&world, &operator, "").await.len(), 4, "an operator sees all");
    assert_eq!(ids(&world, &operator, &format!("?tenant_id={TENANT_B}")).await, [foreign.id]);
}

#[tokio::test]
async fn an_operator_makes_keys_of_every_kind() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let other = told(world.post(&operator, "/admin/keys", json!({ "role": "super_admin" })).await);
    world.get(&other, "/admin/tenants").await.expect(200);
    let worker = world.post(&operator, "/admin/keys", json!({ "role": "worker" })).await.expect(201);
    assert_eq!(worker["tenant_id"], Value::Null);
    let body = json!({ "role": "tenant_admin", "tenant_id": TENANT_B });
    let made = world.post(&operator, "/admin/keys", body).await.expect(201);
    assert_eq!(made["tenant_id"], json!(TENANT_B));
}

#[tokio::test]
async fn bad_keys_are_refused_and_none_is_made() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    for (body, status, code, reason) in [
        (json!({}), 400, "JF102", "body_invalid"),
        (json!({ "role": "king" }), 400, "JF102", "body_invalid"),
        (json!({ "role": "worker", "secret": "x" }), 400, "JF102", "body_invalid"),
        (json!({ "role": "producer" }), 400, "JF001", "key_tenant_missing"),
        (json!({ "role": "super_admin", "tenant_id": TENANT_A }), 400, "JF001", "key_tenant_given"),
        (json!({ "role": "producer", "tenant_id": Uuid::from_u128(9) }), 404, "JF007", "tenant_unknown"),
        (json!({ "role": "worker", "name": "x".repeat(201) }), 400, "JF001", "name_length"),
        (
            json!({ "role": "worker", "expires_at": "2001-01-01T00:00:00Z" }),
            400,
            "JF001",
            "expiry_in_the_past",
        ),
    ] {
        world.post(&operator, "/admin/keys", body).await.refused(status, code, reason);
    }
    assert_eq!(ids(&world, &operator, "").await, [operator.id.as_str()]);
}

#[tokio::test]
async fn keys_come_in_pages() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let mut all = vec![operator.id.clone()];
    for role in [Role::Producer, Role::TenantViewer] {
        all.push(world.key(role).await.id);
    }
    all.sort_unstable();
    let first = world.get(&operator, "/admin/keys?limit=2").await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let mut seen = ids(&world, &operator, "?limit=2").await;
    seen.extend(ids(&world, &operator, &format!("?limit=2&cursor={cursor}")).await);
    assert_eq!(seen, all);
}
