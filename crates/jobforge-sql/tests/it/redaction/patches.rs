//! A redrive edits payloads as they are, and tells nothing of what it may not show.

use serde_json::{Value, json};
use tokio_postgres::types::Json;

use super::{CANARY, rule};
use crate::races::stage::Stage;
use crate::schema::TENANT_A;

const PAYLOAD: &str =
    r#"'{"card": {"number": "canary-4111-1111", "name": "ann"}, "items": [{"secret": "canary-4111-1111"}]}'"#;

async fn stage() -> Stage {
    let stage = Stage::set().await;
    rule(stage.operator.client(), "'{/card/number,/items/*/secret}'", "null").await.unwrap();
    stage
}

#[tokio::test]
async fn a_patch_neither_asks_nor_moves_what_is_hidden() {
    let stage = stage().await;
    let id = stage.dead_with(PAYLOAD, "permanent", "x").await;
    let before = stage.row(id).await;
    let test = |path: &str| json!({"op": "test", "path": path, "value": CANARY});
    for patch in [
        json!([test("/card/number")]),
        json!([{"op": "test", "path": "/card/number", "value": "wrong"}]),
        json!([{"op": "test", "path": "/card", "value": {"number": CANARY, "name": "ann"}}]),
        json!([{"op": "test", "path": "", "value": {}}]),
        json!([test("/items/0/secret")]),
        json!([{"op": "copy", "from": "/card/number", "path": "/open"}]),
        json!([{"op": "move", "from": "/card", "path": "/open"}]),
        json!([{"op": "copy", "from": "/items/0", "path": "/open"}]),
        json!([{"op": "add", "path": "/items/0", "value": {}}, test("/items/1/secret")]),
        json!([{"op": "copy", "from": "/items", "path": "/card/items"}]),
    ] {
        for dry in ["true", "false"] {
            let arguments = format!("array['{id}'::uuid], p_patch => '{patch}', p_dry_run => {dry}");
            let told = stage.redrive(&arguments).await;
            assert_eq!(told, [(id, "skipped JF003 patch_path_redacted".to_owned())], "{patch}");
        }
    }
    assert_eq!(stage.row(id).await, before);
}

#[tokio::test]
async fn what_is_hidden_may_be_written_and_the_record_hides_it() {
    let stage = stage().await;
    let id = stage.dead_with(PAYLOAD, "permanent", "x").await;
    let patch = json!([
        {"op": "test", "path": "/card/name", "value": "ann"},
        {"op": "replace", "path": "/card/number", "value": "new-canary-1"},
        {"op": "add", "path": "/items/-", "value": {"secret": "new-canary-2", "open": 1}},
        {"op": "add", "path": "/more", "value": {"open": 2}},
    ]);
    let told = stage.redrive(&format!("array['{id}'::uuid], p_patch => '{patch}'")).await;
    assert_eq!(told, [(id, "redriven".to_owned())]);
    let job = stage.claim(1).await.remove(0);
    assert_eq!(job.payload["card"]["number"], "new-canary-1", "the raw payload is edited");
    assert_eq!(job.payload["items"][1]["secret"], "new-canary-2");
    let sql = "select patch, jobforge.redact_patch(patch, filter) from jobforge.bulk_operations";
    let kept: Value = stage.admin.query_one(sql, &[]).await.unwrap().get::<_, Json<Value>>(0).0;
    let hidden = "[redacted]";
    assert_eq!((&kept[0]["value"], &kept[1]["value"]), (&json!("ann"), &json!(hidden)));
    assert_eq!(kept[2], json!({"op": "add", "path": "/items/-", "value": {"secret": hidden, "open": 1}}));
    assert_eq!(kept[3]["value"], json!({"open": 2}));
    let sql = "select before from jobforge.list_bulk_results($1, p_job_id => $2)";
    let row = &stage.app.query(sql, &[&TENANT_A, &id]).await.unwrap()[0];
    let before: Value = row.get::<_, Json<Value>>(0).0;
    assert_eq!(
        before["payload"],
        json!({"card": {"number": hidden, "name": "ann"}, "items": [{"secret": hidden}]})
    );
}

#[tokio::test]
async fn an_operation_in_steps_keeps_its_patch_only_as_long_as_it_needs_it() {
    let stage = stage().await;
    let ids =
        [stage.dead_with(PAYLOAD, "permanent", "x").await, stage.dead_with(PAYLOAD, "permanent", "x").await];
    let patch = json!([{"op": "replace", "path": "/card/number", "value": "new-canary-1"}]);
    let operation = stage
        .start(&format!("'redrive', '{{\"statuses\": [\"failed\"]}}', p_patch => '{patch}'"))
        .await
        .unwrap();
    let kept = async || {
        let sql = "select patch::text from jobforge.bulk_operations where id = $1";
        stage.admin.query_one(sql, &[&operation]).await.unwrap().get::<_, String>(0)
    };
    stage.step(operation, 1).await;
    assert!(kept().await.contains("new-canary-1"), "the next step needs it");
    while stage.step(operation, 1).await.starts_with("running") {}
    assert!(!kept().await.contains("new-canary-1"), "{}", kept().await);
    let jobs = stage.claim(2).await;
    assert_eq!(jobs.len(), ids.len());
    assert!(jobs.iter().all(|job| job.payload["card"]["number"] == "new-canary-1"));
}
