//! The functions behind redaction, by tables of cases.

use serde_json::{Value, json};
use tokio_postgres::types::Json;

use crate::schema::migrated;

#[tokio::test]
async fn paths_lead_where_they_say() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let hidden = "[redacted]";
    let cases: &[(Value, &[&str], Value)] = &[
        (json!({"a": 1, "b": 2}), &["/a"], json!({"a": hidden, "b": 2})),
        (json!({"a": {"b": [1]}}), &["/a/b"], json!({"a": {"b": hidden}})),
        (json!({"a": null}), &["/a"], json!({"a": hidden})),
        (json!({"a": {"b": 1}}), &["/a"], json!({"a": hidden})),
        (json!({"a": 1}), &["/b", "/a/b", "/a/*", "/0"], json!({"a": 1})),
        (
            json!({"a": [{"s": 1, "t": 2}, {"s": 3}, 4]}),
            &["/a/*/s"],
            json!({"a": [{"s": hidden, "t": 2}, {"s": hidden}, 4]}),
        ),
        (
            json!({"a": {"x": {"s": 1}, "y": {"s": 2}}}),
            &["/a/*/s"],
            json!({"a": {"x": {"s": hidden}, "y": {"s": hidden}}}),
        ),
        (json!([[1, 2], [3]]), &["/*/*"], json!([[hidden, hidden], [hidden]])),
        (json!([1, 2]), &["/0", "/1", "/-"], json!([1, 2])),
        (json!({"0": 1}), &["/0"], json!({"0": hidden})),
        (
            json!({"a/b": 1, "c~d": 2, "*": 3, "": 4, "x": 5}),
            &["/a~1b", "/c~0d", "/~2", "/"],
            json!({"a/b": hidden, "c~d": hidden, "*": hidden, "": hidden, "x": 5}),
        ),
        (json!({"~1": 1, "/": 2}), &["/~01"], json!({"~1": hidden, "/": 2})),
        (json!({"a": 1, "b": {}}), &["/*"], json!({"a": hidden, "b": hidden})),
        (json!({"a": 1}), &[""], json!(hidden)),
        (json!([]), &["/*"], json!([])),
        (json!({}), &["/*/a"], json!({})),
        (json!("text"), &["/a"], json!("text")),
        (json!({"a": 1}), &[], json!({"a": 1})),
        (json!({"a": {"b": 1, "c": 2}}), &["/a/b", "/a/c"], json!({"a": {"b": hidden, "c": hidden}})),
    ];
    for (value, paths, wanted) in cases {
        let row = admin.query_one("select jobforge.redact($1, $2)", &[&Json(value), paths]).await.unwrap();
        assert_eq!(row.get::<_, Json<Value>>(0).0, *wanted, "{value} by {paths:?}");
    }
    let row = admin
        .query_one("select jobforge.redact(null, '{/a}'), jobforge.redact('{\"n\": 1.10}', null)::text", &[]);
    let row = row.await.unwrap();
    assert_eq!(
        (row.get::<_, Option<Json<Value>>>(0).map(|v| v.0), row.get::<_, String>(1)),
        (None, "{\"n\": 1.10}".into())
    );
}

#[tokio::test]
async fn texts_lose_what_stands_at_the_paths() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let payload = json!({"key": "se\"cret", "pin": "12345", "no": 123_456, "deep": [{"a": "longer-secret"}, "secret"], "open": "secrets"});
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["/key"],
            "is se\"cret, in JSON {\"k\": \"se\\\"cret\"}",
            "is [redacted], in JSON {\"k\": \"[redacted]\"}",
        ),
        (&["/pin"], "12345", "12345"),
        (&["/no"], "number 123456.", "number [redacted]."),
        (&["/deep"], "longer-secret and secret", "[redacted] and [redacted]"),
        (&["/deep/*/a"], "longer-secret and secret", "[redacted] and secret"),
        (&["/none"], "secret", "secret"),
        (&[], "secret", "secret"),
    ];
    let sql = "select jobforge.redact_text($1, jobforge.redacted_values($2, $3))";
    for (paths, text, wanted) in cases {
        let row = admin.query_one(sql, &[text, &Json(&payload), paths]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), *wanted, "{paths:?}");
    }
    // As an HTTP server answers that tells what it was sent.
    let quoted = json!({"sent": json!({"key": "se\"cret"}).to_string()}).to_string();
    let sql_of_json = "select jobforge.redact_strings($1, '{\"se\\\"cret\"}')";
    let row = admin.query_one(sql_of_json, &[&Json(json!({"body": quoted}))]).await.unwrap();
    let clean = row.get::<_, Json<Value>>(0).0.to_string();
    assert!(clean.contains("[redacted]") && !clean.contains("cret"), "{clean}");
    let many: Vec<String> = (0..1001).map(|n| format!("value-{n}")).collect();
    let row = admin.query_one(sql, &[&"any text", &Json(json!(many)), &["/*"].as_slice()]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "[redacted]", "too many to be searched for");
}
