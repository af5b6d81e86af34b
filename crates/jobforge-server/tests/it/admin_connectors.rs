//! Connector configs: secrets go in, sealed, and nothing of them comes out.

use std::sync::{Arc, Mutex};

use axum::http::Method;
use jobforge_core::{Role, StoredSecret};
use jobforge_server::{SealError, SealPlace, Sealer};
use jobforge_testkit::{TENANT_A, TENANT_B};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::admin::{assert_by, delete, last_audit, put, with_headers};
use crate::world::World;

const CRM: &str = "/admin/connectors/crm";
const SECRET: &str = "hunter2-and-more";

/// Seals by writing the place down; refuses what is empty.
#[derive(Debug, Default)]
struct Notary {
    places: Mutex<Vec<String>>,
}

impl Sealer for Notary {
    fn seal(&self, place: SealPlace<'_>, secret: &SecretString) -> Result<StoredSecret, SealError> {
        if secret.expose_secret().is_empty() {
            return Err(SealError::Unfit("it is empty".to_owned()));
        }
        let place = format!("{} {} {}", place.tenant, place.config, place.name);
        let bytes = format!("{place} {}", secret.expose_secret().len()).into_bytes();
        self.places.lock().unwrap().push(place);
        Ok(StoredSecret::Sealed { key_id: "test".to_owned(), bytes })
    }
}

async fn sealing() -> (World, Arc<Notary>) {
    let notary = Arc::new(Notary::default());
    let sealer = notary.clone();
    (World::with(|config| config.sealer = Some(sealer)).await, notary)
}

#[tokio::test]
async fn a_config_is_made_read_changed_and_deleted() {
    let world = World::new().await;
    let admin = world.key(Role::TenantAdmin).await;
    let given = json!({
        "settings": { "base_url": "https://crm.example", "retries": 3 },
        "secrets": { "token": { "env": "CRM_TOKEN" }, "old": { "env": "CRM_OLD" } },
    });
    let made = put(&world, &admin, CRM, given).await.expect(200);
    assert_eq!(made["settings"], json!({ "base_url": "https://crm.example", "retries": 3 }));
    assert_eq!(
        made["secrets"],
        json!([
            { "name": "old", "kind": "env", "key_id": null },
            { "name": "token", "kind": "env", "key_id": null },
        ])
    );
    assert_eq!(made["updated_by"], format!("key jf_{} (tenant_admin)", admin.id));
    assert_by(
        &last_audit(&world, "connector_config", "crm").await,
        "upsert_connector_config",
        &admin,
        Role::TenantAdmin,
    );
    let less = json!({ "settings": { "retries": null }, "secrets": { "old": null } });
    let less = put(&world, &admin, CRM, less).await.expect(200);
    assert_eq!(less["settings"], json!({ "base_url": "https://crm.example" }));
    assert_eq!(less["secrets"].as_array().unwrap().len(), 1);
    assert_eq!(world.get(&admin, CRM).await.expect(200)["secrets"], less["secrets"]);
    put(&world, &admin, "/admin/connectors/erp", json!({})).await.expect(200);
    let page = world.get(&admin, "/admin/connectors?limit=1").await.expect(200);
    assert_eq!(page["connectors"][0]["name"], "crm");
    let next = format!("/admin/connectors?limit=1&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(world.get(&admin, &next).await.expect(200)["connectors"][0]["name"], "erp");

    assert_eq!(delete(&world, &admin, CRM).await.expect(200), json!({ "name": "crm", "deleted": true }));
    assert_eq!(delete(&world, &admin, CRM).await.expect(200)["deleted"], false);
    world.get(&admin, CRM).await.refused(404, "JF007", "connector_config_unknown");
}

#[tokio::test]
async fn a_secret_given_in_clear_is_sealed_for_its_place_and_told_to_nobody() {
    let (world, notary) = sealing().await;
    let admin = world.key(Role::TenantAdmin).await;
    let made = put(&world, &admin, CRM, json!({ "secrets": { "token": { "value": SECRET } } })).await;
    let looks = [made, world.get(&admin, CRM).await, world.get(&admin, "/admin/connectors").await];
    for look in looks {
        let text = String::from_utf8(look.bytes.clone()).unwrap();
        assert!(text.contains(r#""kind":"sealed""#) && text.contains(r#""key_id":"test""#), "{text}");
        assert!(
            !text.contains(SECRET) && !text.contains("bytes") && !text.contains(r#""sealed":"#),
            "{text}"
        );
        look.expect(200);
    }
    assert_eq!(*notary.places.lock().unwrap(), [format!("{TENANT_A} crm token")]);
    let admin_client = world.db.connect_super().await;
    let sql = "select convert_from(sealed, 'UTF8') from jobforge.connector_secrets";
    let stored: String = admin_client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(stored, format!("{TENANT_A} crm token {}", SECRET.len()));
    let entry = last_audit(&world, "connector_config", "crm").await;
    assert!(!entry.to_string().contains(SECRET), "{entry}");
    put(&world, &admin, CRM, json!({ "secrets": { "token": { "value": "" } } })).await.refused(
        400,
        "JF001",
        "secret_malformed",
    );
}

#[tokio::test]
async fn without_a_sealer_a_secret_in_clear_goes_nowhere() {
    let world = World::new().await;
    let admin = world.key(Role::TenantAdmin).await;
    let body = json!({ "settings": { "a": 1 }, "secrets": { "token": { "value": SECRET } } });
    let answer = put(&world, &admin, CRM, body).await;
    assert!(!String::from_utf8_lossy(&answer.bytes).contains(SECRET));
    answer.refused(409, "JF008", "sealing_unavailable");
    world.get(&admin, CRM).await.refused(404, "JF007", "connector_config_unknown");
}

#[tokio::test]
async fn bad_configs_are_refused_without_repeating_a_secret() {
    let (world, _) = sealing().await;
    let admin = world.key(Role::TenantAdmin).await;
    for (body, code, reason) in [
        (json!({ "secrets": { "token": SECRET } }), "JF102", "body_invalid"),
        (json!({ "secrets": { "token": [SECRET] } }), "JF102", "body_invalid"),
        (json!({ "secrets": { "token": { "value": SECRET, "env": "A" } } }), "JF102", "body_invalid"),
        (json!({ "secrets": { "token": { "sealed": SECRET } } }), "JF102", "body_invalid"),
        (json!({ "secrets": { "token": { "value": 7 } } }), "JF102", "body_invalid"),
        (json!({ "token": SECRET }), "JF102", "body_invalid"),
        (json!({ "secrets": { "token": { "env": "no variable" } } }), "JF001", "secret_malformed"),
        (json!({ "secrets": { "a b": { "env": "A" } } }), "JF001", "secret_name_malformed"),
        (json!({ "settings": [] }), "JF001", "settings_malformed"),
        (json!({ "settings": { "a": "\u{0}" } }), "JF102", "text_unstorable"),
    ] {
        let answer = put(&world, &admin, CRM, body).await;
        assert!(!String::from_utf8_lossy(&answer.bytes).contains(SECRET));
        answer.refused(400, code, reason);
    }
    world.get(&admin, CRM).await.refused(404, "JF007", "connector_config_unknown");
    put(&world, &admin, "/admin/connectors/a%20b", json!({})).await.refused(400, "JF001", "name_malformed");
}

#[tokio::test]
async fn a_foreign_config_is_an_unknown_one() {
    let world = World::new().await;
    let (a, b) = (world.key(Role::TenantAdmin).await, world.key_of_b(Role::TenantAdmin).await);
    put(&world, &a, CRM, json!({ "settings": { "mine": true } })).await.expect(200);
    for (method, path) in [(Method::GET, ""), (Method::POST, "/enable")] {
        let foreign = world.send(Some(&b), method.clone(), &format!("{CRM}{path}"), None).await;
        let unknown = world.send(Some(&b), method, &format!("/admin/connectors/xyz{path}"), None).await;
        let words = String::from_utf8_lossy(&foreign.bytes).replace("crm", "xyz");
        assert_eq!(words, String::from_utf8_lossy(&unknown.bytes));
        foreign.refused(404, "JF007", "connector_config_unknown");
    }
    assert_eq!(delete(&world, &b, CRM).await.expect(200)["deleted"], false);
    assert_eq!(world.get(&b, "/admin/connectors").await.expect(200)["connectors"], json!([]));
    put(&world, &b, CRM, json!({ "settings": { "theirs": true } })).await.expect(200);
    assert_eq!(world.get(&a, CRM).await.expect(200)["settings"], json!({ "mine": true }));
}

#[tokio::test]
async fn a_config_out_of_use_is_put_back_to_use() {
    let world = World::new().await;
    let admin = world.key(Role::TenantAdmin).await;
    put(&world, &admin, CRM, json!({})).await.expect(200);
    let enable = format!("{CRM}/enable");
    let was = world.send(Some(&admin), Method::POST, &enable, None).await.expect(200);
    assert_eq!(was["enabled"], false, "it was in use");
    let sql = "update jobforge.connector_configs set disabled_at = now(), disabled_reason = 'gone'";
    world.db.connect_super().await.execute(sql, &[]).await.unwrap();
    assert_eq!(world.get(&admin, CRM).await.expect(200)["disabled_reason"], "gone");
    let now = world.send(Some(&admin), Method::POST, &enable, None).await.expect(200);
    assert_eq!(now["enabled"], true);
    assert_eq!(world.get(&admin, CRM).await.expect(200)["disabled_reason"], Value::Null);
    assert_by(
        &last_audit(&world, "connector_config", "crm").await,
        "enable_connector_config",
        &admin,
        Role::TenantAdmin,
    );
}

#[tokio::test]
async fn an_operator_acts_for_the_tenant_it_names() {
    let world = World::new().await;
    let (operator, b) = (world.key(Role::SuperAdmin).await, world.key_of_b(Role::TenantAdmin).await);
    put(&world, &operator, CRM, json!({})).await.refused(400, "JF102", "tenant_missing");
    let tenant = TENANT_B.to_string();
    let named = [("jobforge-tenant", tenant.as_str())];
    with_headers(&world, &operator, (Method::PUT, CRM), &named, &json!({})).await.expect(200);
    world.get(&b, CRM).await.expect(200);
}
