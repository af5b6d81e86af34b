//! Log lines as programs read them.

use jobforge_testkit::{APP, TENANT_A, TestDb, WORKER};
use serde_json::Value;

use crate::{Cli, Ran, demo_db};

/// What every line has, in this order, and nothing beside it.
const NAMES: [&str; 11] = [
    "timestamp",
    "level",
    "worker_id",
    "trace_id",
    "job_id",
    "job_type",
    "tenant_id",
    "attempt_no",
    "message",
    "duration_ms",
    "fields",
];

/// Runs what is due; gives the log.
fn work(db: &TestDb, args: &[&str], filter: &str) -> Ran {
    let cli = Cli::new(db, WORKER);
    let mut command = cli.command();
    command.args(["work", "--once"]).args(args).env("JOBFORGE_LOG__FILTER", filter);
    Ran::of(command.output().unwrap())
}

#[tokio::test]
async fn every_line_has_the_same_names_and_a_job_is_told_of() {
    let db = demo_db().await;
    let app = Cli::new(&db, APP);
    let echo = app.run(&["enqueue", "demo.echo", "--json"]).json()["id"].clone();
    let fail = app.run(&["enqueue", "demo.fail", "--json"]).json()["id"].clone();
    let flaky = app.run(&["enqueue", "demo.flaky", "--payload", "{\"fail_times\": 9}", "--json"]).json();
    let traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = format!("update jobforge.jobs set traceparent = '{traced}'");
    db.connect_super().await.batch_execute(&trace).await.unwrap();

    let ran = work(&db, &["--log-format", "json"], "info,jobforge_worker::jobs=debug");
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut of_jobs = Vec::new();
    for text in ran.stderr.lines() {
        let line: Value = serde_json::from_str(text).unwrap();
        let names: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let places: Vec<usize> =
            NAMES.iter().map(|name| text.find(&format!("\"{name}\":")).unwrap()).collect();
        assert!(names.len() == NAMES.len() && places.is_sorted(), "{text}");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z') && line["message"].is_string(), "{text}");
        if !line["job_id"].is_null() {
            of_jobs.push(line);
        }
    }
    let told = |id: &Value, message: &str| {
        let is_it =
            |line: &&Value| line["job_id"] == *id && line["message"].as_str().unwrap().contains(message);
        of_jobs.iter().find(is_it).unwrap_or_else(|| panic!("{message}: {}", ran.stderr)).clone()
    };
    assert_eq!(told(&echo, "starts")["level"], "DEBUG");
    let done = told(&echo, "is done");
    assert_eq!((&done["level"], &done["job_type"]), (&"DEBUG".into(), &"demo.echo".into()));
    assert_eq!((&done["tenant_id"], &done["attempt_no"]), (&TENANT_A.to_string().into(), &1.into()));
    assert_eq!(done["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert!(done["duration_ms"].is_u64() && done["worker_id"].is_string(), "{done}");
    let failed = told(&fail, "for good");
    assert_eq!(
        (&failed["level"], &failed["fields"]["error"]),
        (&"ERROR".into(), &"failed, as asked for".into())
    );
    assert_eq!(told(&flaky["id"], "tried again")["level"], "WARN");
}

#[tokio::test]
async fn by_default_failures_are_told_and_successes_counted() {
    let db = demo_db().await;
    let app = Cli::new(&db, APP);
    app.run(&["enqueue", "demo.echo", "--json"]).json();
    app.run(&["enqueue", "demo.fail", "--json"]).json();
    for format in ["text", "human"] {
        let ran = work(&db, &["--log-format", format], "info");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!ran.stderr.contains("is done") && !ran.stderr.starts_with('{'), "{ran:?}");
        assert_eq!(ran.stderr.contains("failed for good"), format == "text", "{ran:?}");
    }
    let refused = work(&db, &["--log-format", "xml"], "info");
    assert_eq!(refused.code, 2, "{refused:?}");
}
