//! Tenants and pauses.

use jobforge_core::Role;
use jobforge_testkit::{NOOP, QUEUE, TENANT_A, TENANT_B};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::admin::{assert_by, delete, last_audit, put};
use crate::world::World;

#[tokio::test]
async fn a_tenant_is_made_changed_and_its_limits_taken_away() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let id = Uuid::from_u128(0xc0ffee);
    let path = format!("/admin/tenants/{id}");
    world.get(&operator, &path).await.refused(404, "JF007", "tenant_unknown");
    let made = put(&world, &operator, &path, json!({})).await.expect(200);
    assert_eq!((&made["name"], &made["time_zone"]), (&json!(id.to_string()), &json!("UTC")));
    let given = json!({
        "name": "Coffee", "weight": 3, "max_pending": 100, "max_in_flight": 5, "rate_per_second": 0.5, "rate_burst": 2,
        "retention": "month", "time_zone": "Europe/Berlin",
    });
    let set = put(&world, &operator, &path, given.clone()).await.expect(200);
    for (name, value) in given.as_object().unwrap() {
        assert_eq!(&set[name], value, "{name}");
    }
    assert_by(
        &last_audit(&world, "tenant", &id.to_string()).await,
        "upsert_tenant",
        &operator,
        Role::SuperAdmin,
    );
    assert_eq!(world.get(&operator, &path).await.expect(200), set);
    let less =
        json!({ "max_pending": null, "max_in_flight": null, "rate_per_second": null, "retention": null });
    let less = put(&world, &operator, &path, less).await.expect(200);
    for name in ["max_pending", "max_in_flight", "rate_per_second", "rate_burst", "retention"] {
        assert_eq!(less[name], Value::Null, "{name}");
    }
    assert_eq!((&less["weight"], &less["time_zone"]), (&json!(3), &json!("Europe/Berlin")));
}

#[tokio::test]
async fn bad_tenants_are_refused_and_change_nothing() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let path = format!("/admin/tenants/{TENANT_A}");
    let before = world.get(&operator, &path).await.expect(200);
    for (body, code, reason) in [
        (json!({ "colour": 1 }), "JF102", "body_invalid"),
        (json!({ "time_zone": null }), "JF102", "body_invalid"),
        (json!({ "name": "" }), "JF001", "name_length"),
        (json!({ "name": "\u{0}" }), "JF102", "text_unstorable"),
        (json!({ "weight": 101 }), "JF001", "tenant_out_of_range"),
        (json!({ "weight": 99999 }), "JF001", "tenant_out_of_range"),
        (json!({ "rate_burst": null }), "JF102", "burst_without_rate"),
        (json!({ "retention": "decade" }), "JF001", "tenant_out_of_range"),
        (json!({ "time_zone": "Mars/Olympus" }), "JF001", "time_zone_unknown"),
        (json!({ "time_zone": "europe/berlin" }), "JF001", "time_zone_unknown"),
        (json!({ "time_zone": "UTC+25" }), "JF001", "time_zone_unknown"),
    ] {
        put(&world, &operator, &path, body).await.refused(400, code, reason);
    }
    assert_eq!(world.get(&operator, &path).await.expect(200), before);
    world.get(&operator, "/admin/tenants/7").await.refused(400, "JF102", "path_malformed");
}

#[tokio::test]
async fn tenants_come_in_pages() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let mut seen: Vec<Value> = Vec::new();
    let mut path = "/admin/tenants?limit=2".to_owned();
    loop {
        let page = world.get(&operator, &path).await.expect(200);
        seen.extend(page["tenants"].as_array().unwrap().iter().map(|tenant| tenant["id"].clone()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/admin/tenants?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, [json!(Uuid::nil()), json!(TENANT_A), json!(TENANT_B)]);
}

#[tokio::test]
async fn what_is_paused_is_listed_and_goes_on_when_it_is_resumed() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let author = format!("key jf_{} (super_admin)", operator.id);
    for (kind, name) in [("queue", QUEUE), ("tenant", &TENANT_A.to_string()), ("definition", NOOP)] {
        let body =
            json!({ "kind": kind, "name": name, "reason": "stock-taking", "until": "2099-01-01T00:00:00Z" });
        let paused = world.post(&operator, "/admin/pauses", body).await.expect(200);
        assert_eq!((&paused["kind"], &paused["author"]), (&json!(kind), &json!(author)));
        assert_by(&last_audit(&world, kind, name).await, "pause", &operator, Role::SuperAdmin);
        let listed = world.get(&operator, "/admin/pauses").await.expect(200);
        let pause = &listed["pauses"][0];
        assert_eq!((&pause["kind"], &pause["name"]), (&json!(kind), &json!(name)));
        assert_eq!((&pause["reason"], &pause["author"]), (&json!("stock-taking"), &json!(author)));
        assert_eq!(pause["until"], "2099-01-01T00:00:00Z");
        let path = format!("/admin/pauses/{kind}/{name}");
        assert_eq!(delete(&world, &operator, &path).await.expect(200)["resumed"], true);
        assert_by(&last_audit(&world, kind, name).await, "resume", &operator, Role::SuperAdmin);
        assert_eq!(delete(&world, &operator, &path).await.expect(200)["resumed"], false);
        assert_eq!(world.get(&operator, "/admin/pauses").await.expect(200)["pauses"], json!([]));
    }
}

#[tokio::test]
async fn bad_pauses_are_refused_and_hold_nothing() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    for (body, status, code, reason) in [
        (json!({ "kind": "moon", "name": "x" }), 400, "JF102", "body_invalid"),
        (json!({ "kind": "queue" }), 400, "JF102", "body_invalid"),
        (json!({ "kind": "queue", "name": "a b" }), 400, "JF001", "queue_malformed"),
        (json!({ "kind": "tenant", "name": Uuid::from_u128(9) }), 404, "JF007", "tenant_unknown"),
        (json!({ "kind": "definition", "name": "nobody.knows" }), 422, "JF002", "unknown_definition"),
        (
            json!({ "kind": "queue", "name": QUEUE, "until": "2001-01-01T00:00:00Z" }),
            400,
            "JF001",
            "until_in_the_past",
        ),
        (json!({ "kind": "queue", "name": QUEUE, "reason": "x".repeat(501) }), 400, "JF001", "reason_length"),
    ] {
        world.post(&operator, "/admin/pauses", body).await.refused(status, code, reason);
    }
    delete(&world, &operator, "/admin/pauses/moon/x").await.refused(400, "JF102", "path_malformed");
    assert_eq!(world.get(&operator, "/admin/pauses").await.expect(200)["pauses"], json!([]));
}
