//! JSON Patch: each operation on what it fits and on what it does not, and patches that are none.

use serde_json::Value;
use tokio_postgres::types::Json;

use super::cast::json;
use crate::races::stage::refusal;
use crate::schema::migrated;

const MISSING: &str = "JF003:patch_path_missing";
const FAILED: &str = "JF003:patch_test_failed";

/// A document, a patch, and what comes out: a document, or the problem.
type Vector = (&'static str, &'static str, &'static str);

const ADD: &[Vector] = &[
    (r#"{"a": 1}"#, r#"[{"op": "add", "path": "/b", "value": 2}]"#, r#"{"a": 1, "b": 2}"#),
    (r#"{"a": 1}"#, r#"[{"op": "add", "path": "/a", "value": 2}]"#, r#"{"a": 2}"#),
    (r#"{"a": 1}"#, r#"[{"op": "add", "path": "/b", "value": null}]"#, r#"{"a": 1, "b": null}"#),
    (r#"{"a": [1, 3]}"#, r#"[{"op": "add", "path": "/a/1", "value": 2}]"#, r#"{"a": [1, 2, 3]}"#),
    (r#"{"a": [1, 3]}"#, r#"[{"op": "add", "path": "/a/0", "value": 0}]"#, r#"{"a": [0, 1, 3]}"#),
    (r#"{"a": [1]}"#, r#"[{"op": "add", "path": "/a/1", "value": [2]}]"#, r#"{"a": [1, [2]]}"#),
    (r#"{"a": [1]}"#, r#"[{"op": "add", "path": "/a/-", "value": 2}]"#, r#"{"a": [1, 2]}"#),
    (r#"{"a": []}"#, r#"[{"op": "add", "path": "/a/-", "value": 2}]"#, r#"{"a": [2]}"#),
    (r#"[]"#, r#"[{"op": "add", "path": "/0", "value": 1}]"#, r#"[1]"#),
    (r#"{"a": 1}"#, r#"[{"op": "add", "path": "", "value": [9]}]"#, r#"[9]"#),
    (r#"{}"#, r#"[{"op": "add", "path": "/", "value": 1}]"#, r#"{"": 1}"#),
    (r#"{"": {}}"#, r#"[{"op": "add", "path": "//", "value": 1}]"#, r#"{"": {"": 1}}"#),
    (r#"{"a": {}}"#, r#"[{"op": "add", "path": "/a/0", "value": 1}]"#, r#"{"a": {"0": 1}}"#),
    (r#"{}"#, r#"[{"op": "add", "path": "/-", "value": 1}]"#, r#"{"-": 1}"#),
    (r#"{}"#, r#"[{"op": "add", "path": "/a~1b~0c", "value": 1}]"#, r#"{"a/b~c": 1}"#),
    (r#"{}"#, r#"[{"op": "add", "path": "/~01", "value": 1}]"#, r#"{"~1": 1}"#),
    (r#"{"a": 1}"#, r#"[{"op": "add", "path": "/b/c", "value": 2}]"#, MISSING),
    (r#"{"a": 1}"#, r#"[{"op": "add", "path": "/a/c", "value": 2}]"#, MISSING),
    (r#"{"a": null}"#, r#"[{"op": "add", "path": "/a/c", "value": 2}]"#, MISSING),
    (r#"{"a": [1]}"#, r#"[{"op": "add", "path": "/a/2", "value": 2}]"#, MISSING),
    (r#"{"a": [1]}"#, r#"[{"op": "add", "path": "/a/-1", "value": 2}]"#, MISSING),
    (r#"{"a": [1, 2]}"#, r#"[{"op": "add", "path": "/a/01", "value": 2}]"#, MISSING),
    (r#"{"a": [1]}"#, r#"[{"op": "add", "path": "/a/x", "value": 2}]"#, MISSING),
    (r#"{"a": [1]}"#, r#"[{"op": "add", "path": "/a/99999999999999999999", "value": 2}]"#, MISSING),
    ("1", r#"[{"op": "add", "path": "/a", "value": 2}]"#, MISSING),
];

const REMOVE_AND_REPLACE: &[Vector] = &[
    (r#"{"a": 1, "b": 2}"#, r#"[{"op": "remove", "path": "/a"}]"#, r#"{"b": 2}"#),
    (r#"{"a": null}"#, r#"[{"op": "remove", "path": "/a"}]"#, r#"{}"#),
    (r#"[1, 2, 3]"#, r#"[{"op": "remove", "path": "/1"}]"#, r#"[1, 3]"#),
    (r#"{"a": [{"b": 1}]}"#, r#"[{"op": "remove", "path": "/a/0/b"}]"#, r#"{"a": [{}]}"#),
    (r#"{"a": 1}"#, r#"[{"op": "remove", "path": "/b"}]"#, MISSING),
    (r#"[1]"#, r#"[{"op": "remove", "path": "/1"}]"#, MISSING),
    (r#"[1]"#, r#"[{"op": "remove", "path": "/-1"}]"#, MISSING),
    (r#"[1]"#, r#"[{"op": "remove", "path": "/-"}]"#, MISSING),
    (r#"{"a": 1}"#, r#"[{"op": "replace", "path": "/a", "value": {"x": 1.10}}]"#, r#"{"a": {"x": 1.10}}"#),
    (r#"{"a": null}"#, r#"[{"op": "replace", "path": "/a", "value": 1}]"#, r#"{"a": 1}"#),
    (r#"[1, 2]"#, r#"[{"op": "replace", "path": "/1", "value": 9}]"#, r#"[1, 9]"#),
    (r#"{"a": 1}"#, r#"[{"op": "replace", "path": "", "value": {}}]"#, r#"{}"#),
    (r#"{"a": 1}"#, r#"[{"op": "replace", "path": "/b", "value": 1}]"#, MISSING),
    (r#"[1]"#, r#"[{"op": "replace", "path": "/1", "value": 1}]"#, MISSING),
    (
        r#"{}"#,
        r#"[{"op": "remove", "path": ""}, {"op": "add", "path": "", "value": {"new": 1}}]"#,
        r#"{"new": 1}"#,
    ),
];

const MOVE_COPY_TEST: &[Vector] = &[
    (r#"{"a": {"b": 1}}"#, r#"[{"op": "move", "from": "/a/b", "path": "/c"}]"#, r#"{"a": {}, "c": 1}"#),
    (r#"[1, 2, 3]"#, r#"[{"op": "move", "from": "/0", "path": "/2"}]"#, r#"[2, 3, 1]"#),
    (r#"{"a": 1}"#, r#"[{"op": "move", "from": "/a", "path": "/a"}]"#, r#"{"a": 1}"#),
    (r#"{"a": {"b": 1}}"#, r#"[{"op": "move", "from": "/a/b", "path": "/a"}]"#, r#"{"a": 1}"#),
    (r#"{"a": 1}"#, r#"[{"op": "move", "from": "/b", "path": "/c"}]"#, MISSING),
    (
        r#"{"a": {"b": 1}}"#,
        r#"[{"op": "copy", "from": "/a", "path": "/c"}]"#,
        r#"{"a": {"b": 1}, "c": {"b": 1}}"#,
    ),
    (r#"{"a": {}}"#, r#"[{"op": "copy", "from": "", "path": "/a/old"}]"#, r#"{"a": {"old": {"a": {}}}}"#),
    (r#"[1]"#, r#"[{"op": "copy", "from": "/0", "path": "/-"}]"#, r#"[1, 1]"#),
    (r#"{"a": 1}"#, r#"[{"op": "copy", "from": "/b", "path": "/c"}]"#, MISSING),
    (r#"{"a": 1.0}"#, r#"[{"op": "test", "path": "/a", "value": 1}]"#, r#"{"a": 1.0}"#),
    (
        r#"{"a": {"x": 1, "y": [2]}}"#,
        r#"[{"op": "test", "path": "/a", "value": {"y": [2], "x": 1}}]"#,
        r#"{"a": {"x": 1, "y": [2]}}"#,
    ),
    (r#"{"a": null}"#, r#"[{"op": "test", "path": "/a", "value": null}]"#, r#"{"a": null}"#),
    (r#"{"a": "1"}"#, r#"[{"op": "test", "path": "/a", "value": 1}]"#, FAILED),
    (r#"{"a": [1, 2]}"#, r#"[{"op": "test", "path": "/a", "value": [2, 1]}]"#, FAILED),
    (r#"{"a": 1}"#, r#"[{"op": "test", "path": "/b", "value": null}]"#, MISSING),
    // In whole or not at all, one after the other; members that RFC 6902 does not know are ignored.
    (
        r#"{"a": 1}"#,
        r#"[{"op": "add", "path": "/b", "value": 2}, {"op": "test", "path": "/a", "value": 2}]"#,
        FAILED,
    ),
    (
        r#"{"a": 1}"#,
        r#"[{"op": "replace", "path": "/a", "value": 2}, {"op": "test", "path": "/a", "value": 2}]"#,
        r#"{"a": 2}"#,
    ),
    (r#"{}"#, r#"[{"op": "add", "path": "/a", "value": 1, "why": "so"}]"#, r#"{"a": 1}"#),
];

#[tokio::test]
async fn patches_do_what_rfc_6902_says() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    for (document, patch, wanted) in [ADD, REMOVE_AND_REPLACE, MOVE_COPY_TEST].concat() {
        let sql = "select jobforge.require_patch($1)::text";
        admin.query(sql, &[&json(patch)]).await.unwrap_or_else(|e| panic!("{patch}: {e:?}"));
        let sql = "select document, problem, document::text from jobforge.apply_patch($1, $2)";
        let row = admin.query_one(sql, &[&json(document), &json(patch)]).await.unwrap();
        let (document_after, problem): (Option<Json<Value>>, Option<String>) = (row.get(0), row.get(1));
        match problem {
            Some(problem) => {
                assert_eq!(problem, wanted, "{document} {patch}");
                assert!(document_after.is_none(), "{document} {patch}");
            }
            None => {
                assert_eq!(document_after.map(|json| json.0), Some(json(wanted).0), "{document} {patch}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_patch_is_refused() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    for patch in [
        "{}",
        "[]",
        "null",
        "[1]",
        r#"[{"path": "/a", "value": 1}]"#,
        r#"[{"op": "append", "path": "/a", "value": 1}]"#,
        r#"[{"op": "ADD", "path": "/a", "value": 1}]"#,
        r#"[{"op": "add", "value": 1}]"#,
        r#"[{"op": "add", "path": "a", "value": 1}]"#,
        r#"[{"op": "add", "path": 1, "value": 1}]"#,
        r#"[{"op": "add", "path": "/a~", "value": 1}]"#,
        r#"[{"op": "add", "path": "/a~2", "value": 1}]"#,
        r#"[{"op": "add", "path": "/a"}]"#,
        r#"[{"op": "replace", "path": "/a"}]"#,
        r#"[{"op": "test", "path": "/a"}]"#,
        r#"[{"op": "move", "path": "/a"}]"#,
        r#"[{"op": "copy", "from": "b", "path": "/a"}]"#,
        r#"[{"op": "move", "from": "/a", "path": "/a/b"}]"#,
        r#"[{"op": "move", "from": "", "path": "/b"}]"#,
        r#"[{"op": "remove", "path": "/a"}, {"op": "none", "path": "/a"}]"#,
    ] {
        let refused = admin.query("select jobforge.require_patch($1)::text", &[&json(patch)]).await;
        assert_eq!(refusal(refused), "JF001 patch_malformed", "{patch}");
    }
    let many =
        "select jobforge.require_patch(jsonb_agg('{\"op\": \"remove\", \"path\": \"/a\"}'::jsonb))::text
                from generate_series(1, 1001)";
    assert_eq!(refusal(admin.query(many, &[]).await), "JF001 patch_malformed");
}

/// A copy of the whole into itself doubles it: thirty of them would fill the memory.
#[tokio::test]
async fn copies_of_copies_end_before_the_memory_does() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let sql = "select problem from jobforge.apply_patch('{\"a\": \"0123456789abcdef\"}', (
        select jsonb_agg(jsonb_build_object('op', 'copy', 'from', '', 'path', '/x' || n)) from generate_series(1, 60) as n))";
    let problem: String = admin.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(problem, "JF003:payload_too_large");
}

/// Numbers that a double cannot hold, and digits that a float would drop, stay as they are beside an edit.
#[tokio::test]
async fn a_patch_changes_no_number_beside_it() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let sql = "select (document::text) from jobforge.apply_patch('{\"n\": 9007199254740993, \"z\": 1.10}',
        '[{\"op\": \"add\", \"path\": \"/x\", \"value\": 2.50}]')";
    let text: String = admin.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(text, r#"{"n": 9007199254740993, "x": 2.50, "z": 1.10}"#);
}
