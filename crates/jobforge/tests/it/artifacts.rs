//! Large payloads and results, as the commands treat them.

use std::fs;

use jobforge_testkit::{APP, WORKER};
use serde_json::{Value, json};

use crate::{Cli, Ran, demo_db, jobforge};

#[tokio::test]
async fn a_large_payload_goes_to_the_store_and_its_result_comes_back() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let large: Value = (0..50_000).map(|n| format!("{n:05}")).collect::<Vec<_>>().into();
    fs::write(app.dir.path().join("large.json"), large.to_string()).unwrap();
    let enqueue = ["enqueue", "demo.echo", "--payload", "@large.json", "--json"];
    app.run(&enqueue).refused("JF003");

    let url = format!("file://{}", app.dir.path().join("artifacts").display());
    let run = |cli: &Cli, args: &[&str]| {
        Ran::of(cli.command().env("JOBFORGE_ARTIFACTS__URL", &url).args(args).output().unwrap())
    };
    let id = run(&app, &enqueue).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(run(&worker, &["tick", "--json"]).json()["completed"], 1);
    let shown = run(&app, &["jobs", "show", &id]);
    assert!(shown.stdout.matches("400001 bytes in the artifact store (sha256:").count() == 2, "{shown:?}");
    let wrote = run(&app, &["jobs", "result", &id, "--out", "result.json", "--json"]).json();
    assert_eq!(wrote["bytes"], 400_001);
    let result: Value =
        serde_json::from_str(&fs::read_to_string(app.dir.path().join("result.json")).unwrap()).unwrap();
    assert!(result == large, "the result is the payload");
    let without = app.run(&["jobs", "result", &id]);
    assert!(without.code == 2 && without.stderr.contains("artifacts.url"), "{without:?}");
}

#[tokio::test]
async fn a_small_result_is_printed_as_it_is() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let enqueued = app.run(&["enqueue", "demo.echo", "--payload", r#"{"a": 1.10}"#, "--json"]).json();
    let id = enqueued["id"].as_str().unwrap();
    let early = app.run(&["jobs", "result", id]);
    assert!(early.code == 1 && early.stderr.contains("has no result"), "{early:?}");
    worker.run(&["tick"]);
    assert_eq!(app.run(&["jobs", "result", id]).stdout, "{\"a\": 1.10}\n");
}

#[test]
fn the_stores_secret_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[artifacts]\nurl = \"s3://bucket/x\"\naccess_key_id = \"me\"\nsecret_access_key = \"hush\"\n";
    fs::write(dir.path().join("jobforge.toml"), text).unwrap();
    let shown = Ran::of(jobforge(dir.path()).args(["config", "show", "--json"]).output().unwrap());
    assert!(!shown.stdout.contains("hush"), "{shown:?}");
    assert_eq!(shown.json()["artifacts.secret_access_key"]["value"], json!("***"));
}
