//! Which schemas and paths a definition takes, and which places a schema hides.

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::rule;
use crate::schema::{NOOP, OPERATOR, WORKER, connect_as, migrated, told};

async fn write_only(operator: &Client, schema: &Value) -> Vec<String> {
    rule(operator, "null", &format!("'{schema}'")).await.unwrap_or_else(|e| panic!("{schema}: {}", told(&e)));
    let sql = "select write_only from jobforge.list_definitions(p_key => $1)";
    operator.query_one(sql, &[&NOOP]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_is_no_schema_or_no_path_is_refused_and_nothing_changes() {
    let db = migrated().await;
    let operator = connect_as(&db, OPERATOR).await;
    rule(&operator, "'{/a}'", "'{\"type\": \"object\"}'").await.unwrap();
    let look = async || {
        let sql = "select d::text from jobforge.list_definitions() as d";
        operator.query(sql, &[]).await.unwrap().iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    let before = look().await;
    let schemas = [
        ("'null'", "schema_malformed"),
        ("'[]'", "schema_malformed"),
        ("'\"object\"'", "schema_malformed"),
        ("jsonb_build_object('description', repeat('x', 66000))", "schema_too_large"),
        ("(repeat('{\"not\":', 70) || 'true' || repeat('}', 70))::jsonb", "schema_too_deep"),
        ("'{\"$schema\": \"http://json-schema.org/draft-04/schema#\"}'", "schema_draft_unknown"),
        ("'{\"$schema\": \"http://example.com/own\"}'", "schema_draft_unknown"),
        ("'{\"$ref\": \"http://127.0.0.1:1/x\"}'", "schema_ref_remote"),
        ("'{\"items\": [{\"$ref\": \"file:///etc/passwd\"}]}'", "schema_ref_remote"),
        ("'{\"allOf\": [{\"not\": {\"$ref\": \"other.json\"}}]}'", "schema_ref_remote"),
        ("'{\"$dynamicRef\": \"https://example.com/#a\"}'", "schema_ref_remote"),
        ("'{\"items\": {\"$id\": \"http://example.com/x\"}}'", "schema_id_nested"),
        ("'{\"not\": {\"$ref\": \"#/nowhere\"}, \"if\": {\"writeOnly\": true}}'", "schema_ref_unknown"),
    ];
    for (schema, reason) in schemas {
        let error = rule(&operator, "null", schema).await.expect_err(schema);
        assert!(told(&error).starts_with(&format!("JF001 ({reason})")), "{schema}: {}", told(&error));
    }
    let paths = [
        ("'{a}'", "redact_malformed"),
        ("'{$.a}'", "redact_malformed"),
        ("'{/a~}'", "redact_malformed"),
        ("'{/a~3}'", "redact_malformed"),
        ("array[null]::text[]", "redact_malformed"),
        ("array['/' || repeat('x', 500)]", "redact_malformed"),
        ("array[repeat('/a', 33)]", "redact_malformed"),
        ("array_fill('/a'::text, array[101])", "redact_too_many"),
    ];
    for (redact, reason) in paths {
        let error = rule(&operator, redact, "null").await.expect_err(redact);
        assert!(told(&error).starts_with(&format!("JF001 ({reason})")), "{redact}: {}", told(&error));
    }
    assert_eq!(look().await, before);
}

#[tokio::test]
async fn write_only_members_are_found_wherever_they_stand() {
    let db = migrated().await;
    let operator = connect_as(&db, OPERATOR).await;
    let hidden = json!({"writeOnly": true});
    let cases = [
        (json!({"properties": {"a": hidden, "b": {}}}), vec!["/a"]),
        (
            json!({"properties": {"a": {"properties": {"b/c": hidden, "*": hidden, "~": hidden}}}}),
            vec!["/a/b~1c", "/a/~0", "/a/~2"],
        ),
        (json!({"items": {"properties": {"s": hidden}}}), vec!["/*/s"]),
        (json!({"prefixItems": [{}, hidden]}), vec!["/*"]),
        (json!({"items": [{"properties": {"s": hidden}}]}), vec!["/*/s"]),
        (json!({"additionalProperties": {"properties": {"s": hidden}}}), vec!["/*/s"]),
        (json!({"patternProperties": {"^x": {"properties": {"s": hidden}}}}), vec!["/*/s"]),
        (json!({"anyOf": [{"properties": {"a": hidden}}, {"properties": {"b": hidden}}]}), vec!["/a", "/b"]),
        (
            json!({"if": {}, "then": {"properties": {"a": hidden}}, "else": {"properties": {"b": hidden}}}),
            vec!["/a", "/b"],
        ),
        (json!({"dependentSchemas": {"x": {"properties": {"a": hidden}}}}), vec!["/a"]),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/s"}, "b": {"$ref": "#named"}}, "$defs": {"s": hidden, "n": {"$anchor": "named", "writeOnly": true}}}),
            vec!["/a", "/b"],
        ),
        (json!({"properties": {"a": {"contentSchema": {"properties": {"x": hidden}}}}}), vec!["/a"]),
        (json!({"writeOnly": true}), vec![""]),
        // A list of itself: its second turn is hidden as a whole.
        (
            json!({"properties": {"key": hidden, "next": {"$ref": "#"}}}),
            vec!["/key", "/next/key", "/next/next"],
        ),
        // One that leads back to itself without a step hides nothing more.
        (json!({"allOf": [{"$ref": "#"}], "properties": {"a": hidden}}), vec!["/a"]),
        // A tree without secrets beside a secret stays open.
        (
            json!({"properties": {"key": hidden, "tree": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"items": {"$ref": "#/$defs/t"}}}}),
            vec!["/key"],
        ),
        (json!({"properties": {"writeOnly": {"type": "boolean"}, "a": {"writeOnly": false}}}), vec![]),
        (json!(true), vec![]),
    ];
    for (schema, wanted) in cases {
        assert_eq!(write_only(&operator, &schema).await, wanted, "{schema}");
    }
}

#[tokio::test]
async fn a_schema_that_unfolds_without_end_is_refused() {
    let db = migrated().await;
    let operator = connect_as(&db, OPERATOR).await;
    let mut defs = serde_json::Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"properties": {"a": next, "b": next}}));
    }
    defs.insert("d40".to_owned(), json!({"writeOnly": true}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
    let error = rule(&operator, "null", &format!("'{schema}'")).await.unwrap_err();
    assert!(told(&error).starts_with("JF001 (schema_too_complex)"), "{}", told(&error));
}

#[tokio::test]
async fn rules_are_kept_changed_and_taken_away() {
    let db = migrated().await;
    let (operator, worker) = (connect_as(&db, OPERATOR).await, connect_as(&db, WORKER).await);
    let rules = async || {
        let sql = "select arg_schema::text, redact from jobforge.definition_rules(array[$1, 'test.other', 'nobody.knows'])";
        let rows = worker.query(sql, &[&NOOP]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(Option<String>, Vec<String>)>>()
    };
    let list = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    assert_eq!(rules().await, []);
    rule(&operator, "'{/a}'", "null").await.unwrap();
    assert_eq!(rules().await, [(None, list(&["/a"]))]);
    let schema = r#"{"properties": {"b": {"writeOnly": true}}}"#;
    rule(&operator, "null", &format!("'{schema}'")).await.unwrap();
    assert_eq!(rules().await, [(Some(schema.to_owned()), list(&["/a", "/b"]))], "what is not given stays");
    let clear = |what: &str| format!("select jobforge.upsert_definition('{NOOP}', p_clear => '{{{what}}}')");
    operator.query(&clear("redact"), &[]).await.unwrap();
    assert_eq!(rules().await, [(Some(schema.to_owned()), list(&["/b"]))]);
    operator.query(&clear("arg_schema"), &[]).await.unwrap();
    assert_eq!(rules().await, []);
    for types in ["null", "'{}'", "array_fill('x'::text, array[501])"] {
        let error =
            worker.query(&format!("select jobforge.definition_rules({types})"), &[]).await.unwrap_err();
        assert!(told(&error).starts_with("JF001 (batch_size)"), "{types}");
    }
}
