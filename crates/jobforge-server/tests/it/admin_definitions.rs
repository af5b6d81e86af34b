//! Definitions: made, changed, versioned, switched off; and what is refused with nothing changed.

use axum::http::Method;
use jobforge_core::Role;
use jobforge_testkit::{NOOP, OTHER};
use serde_json::{Value, json};

use crate::admin::{assert_by, delete, last_audit, put, with_headers};
use crate::world::{Answer, Key, World};

const ROOT: &str = "/admin/jobs/definitions";
const NEW: &str = "/admin/jobs/definitions/mail.send";

fn tag(answer: &Answer) -> String {
    answer.headers["etag"].to_str().unwrap().to_owned()
}

async fn conditional(world: &World, key: &Key, path: &str, header: (&str, &str)) -> Answer {
    let body = json!({ "description": "conditional" });
    with_headers(world, key, (Method::PUT, path), &[header], &body).await
}

#[tokio::test]
async fn a_definition_is_made_read_changed_and_its_limits_taken_away() {
    let world = World::new().await;
    let (operator, viewer) = (world.key(Role::SuperAdmin).await, world.key(Role::TenantViewer).await);
    let given = json!({
        "key": "mail.send", "description": "Sends", "queue": "mail", "priority": 50, "timeout_seconds": 30,
        "max_attempts": 7, "max_deaths": 2, "retry_preset": "quick", "retry_jitter": 0.1, "retention": "week",
        "dead_retention": "month", "is_active": true, "max_in_flight": 9, "max_in_flight_per_key": 2,
        "rate_per_second": 2.5, "rate_burst": 4, "arg_schema": { "type": "object" }, "redact": ["/card/number"],
    });
    let answer = world.post(&operator, ROOT, given.clone()).await;
    let made_tag = tag(&answer);
    let made = answer.expect(201);
    for (name, value) in given.as_object().unwrap() {
        if name != "retry_preset" {
            assert_eq!(&made[name], value, "{name}");
        }
    }
    assert_eq!((&made["retry_base_ms"], &made["retry_cap_ms"]), (&json!(1000), &json!(60000)));
    assert_by(
        &last_audit(&world, "definition", "mail.send").await,
        "upsert_definition",
        &operator,
        Role::SuperAdmin,
    );

    let found = world.get(&viewer, NEW).await;
    assert_eq!(tag(&found), made_tag);
    let same =
        with_headers(&world, &viewer, (Method::GET, NEW), &[("if-none-match", &made_tag)], &json!({})).await;
    assert_eq!((same.status.as_u16(), same.bytes.len(), tag(&same)), (304, 0, made_tag.clone()));
    assert_eq!(found.expect(200), made, "who reads sees it as it was made");

    let changed =
        put(&world, &operator, NEW, json!({ "key": "mail.send", "description": "Sends mail" })).await;
    assert_ne!(tag(&changed), made_tag);
    let changed = changed.expect(200);
    assert_eq!((&changed["description"], &changed["max_in_flight"]), (&json!("Sends mail"), &json!(9)));

    let less = json!({ "max_in_flight": null, "rate_per_second": 3, "rate_burst": null, "redact": null });
    let less = put(&world, &operator, NEW, less).await.expect(200);
    assert_eq!((&less["max_in_flight"], &less["redact"]), (&Value::Null, &json!([])));
    assert_eq!((&less["rate_per_second"], &less["rate_burst"]), (&json!(3.0), &Value::Null));
    assert_eq!(less["arg_schema"], json!({ "type": "object" }));
    let none = json!({ "rate_per_second": null, "arg_schema": null });
    let none = put(&world, &operator, NEW, none).await.expect(200);
    assert_eq!((&none["rate_per_second"], &none["arg_schema"]), (&Value::Null, &Value::Null));
    assert_eq!(none["max_attempts"], 7, "what was not named stayed");
}

#[tokio::test]
async fn numbers_in_a_schema_stay_as_they_are() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let text = r#"{"arg_schema": {"maximum": 1.10, "minimum": -123456789012345678901234567890}}"#;
    let request = axum::http::Request::put(format!("/api/v1{NEW}"))
        .header("authorization", format!("Bearer {}", operator.text))
        .header("content-type", "application/json")
        .body(axum::body::Body::from(text))
        .unwrap();
    world.request(request).await.expect(200);
    let found = world.get(&operator, NEW).await;
    let bytes = String::from_utf8(found.bytes).unwrap();
    assert!(bytes.contains("1.10") && bytes.contains("-123456789012345678901234567890"), "{bytes}");
}

#[tokio::test]
async fn definitions_come_in_pages() {
    let world = World::new().await;
    let viewer = world.key(Role::TenantViewer).await;
    let first = world.get(&viewer, &format!("{ROOT}?limit=1")).await.expect(200);
    assert_eq!(first["definitions"][0]["key"], NOOP);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&viewer, &format!("{ROOT}?limit=1&cursor={cursor}")).await.expect(200);
    assert_eq!(second["definitions"][0]["key"], OTHER);
    let whole = world.get(&viewer, ROOT).await.expect(200);
    assert_eq!((whole["definitions"].as_array().unwrap().len(), &whole["next_cursor"]), (2, &Value::Null));
    world.get(&viewer, &format!("{ROOT}?limit=0")).await.refused(400, "JF001", "limit_out_of_range");
    world.get(&viewer, &format!("{ROOT}?cursor=x")).await.refused(400, "JF102", "cursor_malformed");
    world.get(&viewer, &format!("{ROOT}?offset=1")).await.refused(400, "JF102", "query_malformed");
}

#[tokio::test]
async fn what_is_there_is_not_made_again() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let again = json!({ "key": NOOP, "description": "again" });
    world.post(&operator, ROOT, again).await.refused(409, "JF008", "definition_exists");
    conditional(&world, &operator, &format!("{ROOT}/{NOOP}"), ("if-none-match", "*")).await.refused(
        412,
        "JF008",
        "definition_exists",
    );
    assert_eq!(world.get(&operator, &format!("{ROOT}/{NOOP}")).await.expect(200)["description"], "");
    conditional(&world, &operator, NEW, ("if-none-match", "*")).await.expect(200);
}

#[tokio::test]
async fn a_change_of_an_old_version_is_refused() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let path = format!("{ROOT}/{NOOP}");
    let old = tag(&world.get(&operator, &path).await);
    let new = tag(&put(&world, &operator, &path, json!({ "description": "first" })).await);
    for stale in [old.as_str(), "\"0\"", "\"x\"", &format!("W/{new}")] {
        let answer = conditional(&world, &operator, &path, ("if-match", stale)).await;
        answer.refused(412, "JF008", "definition_changed");
    }
    assert_eq!(world.get(&operator, &path).await.expect(200)["description"], "first");
    conditional(&world, &operator, &path, ("if-match", &new)).await.expect(200);
    conditional(&world, &operator, &path, ("if-match", "*")).await.expect(200);
    let deactivation = (Method::DELETE, path.as_str());
    with_headers(&world, &operator, deactivation, &[("if-match", &new)], &Value::Null).await.refused(
        412,
        "JF008",
        "definition_changed",
    );
    assert_eq!(world.get(&operator, &path).await.expect(200)["is_active"], true);

    conditional(&world, &operator, NEW, ("if-match", &new)).await.refused(412, "JF008", "definition_changed");
    conditional(&world, &operator, NEW, ("if-match", "*")).await.refused(412, "JF002", "unknown_definition");
    let both = [("if-match", "*"), ("if-none-match", "*")];
    with_headers(&world, &operator, (Method::PUT, NEW), &both, &json!({})).await.refused(
        400,
        "JF102",
        "precondition_malformed",
    );
    world.get(&operator, NEW).await.refused(404, "JF002", "unknown_definition");
}

#[tokio::test]
async fn all_that_is_wrong_with_a_schema_is_told_with_its_place() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let bad = json!({ "arg_schema": { "type": "objekt", "properties": { "to": { "minLength": "1" } } } });
    let problem = put(&world, &operator, NEW, bad).await.refused(400, "JF001", "schema_malformed");
    let mut paths: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/arg_schema/properties/to/minLength", "/arg_schema/type"]);
    for shape in [json!(3), json!([])] {
        let answer = put(&world, &operator, NEW, json!({ "arg_schema": shape })).await;
        assert_eq!(answer.refused(400, "JF001", "schema_malformed")["errors"][0]["path"], "/arg_schema");
    }
    world.get(&operator, NEW).await.refused(404, "JF002", "unknown_definition");
}

#[tokio::test]
async fn bad_definitions_are_refused_and_change_nothing() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    for (body, code, reason) in [
        (json!({ "colour": 1 }), "JF102", "body_invalid"),
        (json!({ "max_attempts": null }), "JF102", "body_invalid"),
        (json!({ "max_attempts": "3" }), "JF102", "body_invalid"),
        (json!({ "key": "another" }), "JF102", "key_differs"),
        (json!({ "rate_burst": null }), "JF102", "burst_without_rate"),
        (json!({ "rate_burst": 3 }), "JF001", "definition_out_of_range"),
        (json!({ "max_attempts": 0 }), "JF001", "definition_out_of_range"),
        (json!({ "max_attempts": 70000 }), "JF001", "definition_out_of_range"),
        (json!({ "retry_factor": 1e300 }), "JF102", "body_malformed"),
        (json!({ "rate_per_second": 1e300 }), "JF001", "definition_out_of_range"),
        (json!({ "retry_preset": "eager" }), "JF001", "preset_unknown"),
        (json!({ "redact": ["card"] }), "JF001", "redact_malformed"),
        (json!({ "description": "\u{0}" }), "JF102", "value_unstorable"),
        (json!({ "arg_schema": { "title": "\u{0}" } }), "JF102", "value_unstorable"),
    ] {
        put(&world, &operator, NEW, body).await.refused(400, code, reason);
    }
    world.get(&operator, NEW).await.refused(404, "JF002", "unknown_definition");
    put(&world, &operator, &format!("{ROOT}/a%20b"), json!({})).await.refused(400, "JF001", "key_malformed");
    world.post(&operator, ROOT, json!({})).await.refused(400, "JF102", "key_missing");
    delete(&world, &operator, NEW).await.refused(404, "JF002", "unknown_definition");
    assert_eq!(last_audit(&world, "definition", "mail.send").await, Value::Null);
}

#[tokio::test]
async fn a_definition_that_is_switched_off_takes_no_jobs_and_stays_known() {
    let world = World::new().await;
    let (operator, producer) = (world.key(Role::SuperAdmin).await, world.key(Role::Producer).await);
    let path = format!("{ROOT}/{NOOP}");
    assert_eq!(delete(&world, &operator, &path).await.expect(200)["is_active"], false);
    world.post(&producer, "/jobs", json!({ "type": NOOP })).await.refused(
        422,
        "JF002",
        "inactive_definition",
    );
    assert_eq!(world.get(&operator, &path).await.expect(200)["is_active"], false);
    put(&world, &operator, &path, json!({ "is_active": true })).await.expect(200);
    world.post(&producer, "/jobs", json!({ "type": NOOP })).await.expect(201);
}

#[tokio::test]
async fn a_schema_holds_from_the_answer_on() {
    let world = World::new().await;
    let (operator, producer) = (world.key(Role::SuperAdmin).await, world.key(Role::Producer).await);
    let enqueue = async |payload: Value| {
        world.post(&producer, "/jobs", json!({ "type": "mail.send", "payload": payload })).await
    };
    enqueue(json!({})).await.refused(422, "JF002", "unknown_definition");
    let strict = json!({ "arg_schema": { "type": "object", "required": ["to"] } });
    put(&world, &operator, NEW, strict).await.expect(200);
    enqueue(json!({})).await.refused(422, "JF003", "payload_invalid");
    put(&world, &operator, NEW, json!({ "arg_schema": { "type": "string" } })).await.expect(200);
    enqueue(json!("a")).await.expect(201);
    enqueue(json!({ "to": "a" })).await.refused(422, "JF003", "payload_invalid");
}
