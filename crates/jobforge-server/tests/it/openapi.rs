//! The description of the API: kept in the repository, sound, and never stale.

use std::collections::BTreeSet;

use serde_json::Value;

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
