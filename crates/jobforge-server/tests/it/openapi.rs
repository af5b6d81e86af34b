//! The description of the API: kept in the repository, sound, and never stale.

use std::collections::BTreeSet;

use jobforge_core::Role;
use jobforge_testkit::TENANT_A;
use serde_json::Value;

use crate::auth_support::Ask;
use crate::world::World;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

#[test]
fn the_kept_description_is_that_of_the_routes() {
    let (kept, made) = (std::fs::read_to_string(KEPT).unwrap(), jobforge_server::document());
    let stale: Vec<&str> =
        kept.lines().filter(|line| !made.lines().any(|other| other == *line)).take(10).collect();
    let new: Vec<&str> =
        made.lines().filter(|line| !kept.lines().any(|other| other == *line)).take(10).collect();
    assert!(kept == made, "docs/openapi.json is stale: make openapi\ngone: {stale:#?}\nnew: {new:#?}");
}

#[test]
fn every_reference_leads_somewhere_and_every_operation_has_a_name_and_a_tag_of_its_own() {
    let document: Value = serde_json::from_str(&jobforge_server::document()).unwrap();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    for reference in references {
        let place = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
    }
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["tags"][0].is_string(), "{method} {path} has no tag");
            let refusal = &operation["responses"]["default"]["content"]["application/problem+json"];
            assert!(refusal.is_object(), "{method} {path} does not tell its refusals");
            assert!(path.starts_with("/api/v1/"), "{path}");
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{method} {path}: two operations are named {name}");
        }
    }
}

/// A super-admin who has nothing but the document finds out how a tenant is named; where there is none to name, it is
/// not asked to.
#[test]
fn every_operation_of_a_tenant_tells_how_a_super_admin_names_it() {
    let document: Value = serde_json::from_str(&jobforge_server::document()).unwrap();
    let names = |path: &str, method: &str| {
        let parameters =
            document["paths"][path][method]["parameters"].as_array().cloned().unwrap_or_default();
        parameters
            .iter()
            .any(|parameter| parameter["name"] == "JobForge-Tenant" && parameter["in"] == "header")
    };
    for (path, method) in [
        ("/api/v1/jobs", "post"),
        ("/api/v1/jobs/{id}/wait", "get"),
        ("/api/v1/dead-letters/groups", "get"),
        ("/api/v1/bulk", "post"),
        ("/api/v1/series", "get"),
        ("/api/v1/audit", "get"),
        ("/api/v1/admin/connectors/{name}", "put"),
    ] {
        assert!(names(path, method), "{method} {path}");
    }
    for (path, method) in [
        ("/api/v1/admin/audit", "get"),
        ("/api/v1/admin/tenants", "get"),
        ("/api/v1/jobs/tick", "post"),
        ("/api/v1/worker/jobs/claim", "post"),
    ] {
        assert!(!names(path, method), "{method} {path}");
    }
}

#[test]
fn an_enqueue_that_found_its_job_is_described() {
    let document: Value = serde_json::from_str(&jobforge_server::document()).unwrap();
    let answer =
        &document["paths"]["/api/v1/jobs"]["post"]["responses"]["200"]["content"]["application/json"];
    let told = document.pointer(answer["schema"]["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap();
    let forms: Vec<&str> =
        told["oneOf"].as_array().unwrap().iter().filter_map(|form| form["$ref"].as_str()).collect();
    assert_eq!(forms, ["#/components/schemas/TakenIn", "#/components/schemas/ManyTakenIn"]);
}

/// The bounds that the document tells are the bounds that hold.
#[tokio::test]
async fn a_limit_reaches_as_far_as_it_is_said_to_and_no_further() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let document: Value = serde_json::from_str(&jobforge_server::document()).unwrap();
    let mut lists = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let parameters = item["get"]["parameters"].as_array().cloned().unwrap_or_default();
        let limit = parameters.iter().find(|parameter| parameter["name"] == "limit");
        let Some(limit) = limit.filter(|_| !path.contains('{')) else { continue };
        let path = path.strip_prefix("/api/v1").unwrap();
        let ask = async |limit: i64| {
            let ask = Ask::get(&format!("{path}?limit={limit}")).key(&operator);
            ask.header("jobforge-tenant", &TENANT_A.to_string()).of(&world.router).await
        };
        let most = limit["schema"]["maximum"].as_i64().unwrap();
        ask(most).await.expect(200);
        for beyond in [0, most + 1] {
            ask(beyond).await.refused(400, "JF001", "limit_out_of_range");
        }
        lists += 1;
    }
    assert!(lists > 10, "{lists}");
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}
