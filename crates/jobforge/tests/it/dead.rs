//! Dead letters from outside: looked at, put back to work, undone.

use std::fs;
use std::time::{Duration, Instant};

use jobforge_testkit::{APP, TestDb, WORKER};
use serde_json::Value;
use uuid::Uuid;

use crate::{Cli, PATIENCE, demo_db};

/// A database with dead letters: three of one cause, one of another.
async fn graveyard() -> (TestDb, Cli, Cli) {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    for message in ["user 1 not found", "user 2 not found", "user 3 not found", "disk full"] {
        let payload = serde_json::json!({ "message": message }).to_string();
        app.run(&["enqueue", "demo.fail", "--payload", &payload, "--json"]).json();
    }
    assert_eq!(worker.run(&["tick", "--json"]).json()["failed"], 4);
    (db, app, worker)
}

fn list(app: &Cli, args: &[&str]) -> Vec<Value> {
    app.run(&[&["dead", "list", "--json"], args].concat()).json()["jobs"].as_array().unwrap().clone()
}

#[tokio::test]
async fn dead_letters_are_listed_and_grouped() {
    let (_db, app, _worker) = graveyard().await;
    let words = app.run(&["dead", "groups"]);
    assert!(words.stdout.contains("user <n> not found") && words.stdout.contains("disk full"), "{words:?}");
    let groups = app.run(&["dead", "groups", "--json"]).json();
    assert_eq!((&groups[0]["jobs"], &groups[1]["jobs"]), (&3.into(), &1.into()));
    let print = groups[0]["fingerprint"].as_str().unwrap();
    assert_eq!(list(&app, &["--fingerprint", print]).len(), 3);
    assert_eq!(list(&app, &["--type", "demo.fail", "--queue", "default"]).len(), 4);
    assert_eq!(list(&app, &["--type", "demo.echo"]).len(), 0);
    assert_eq!(list(&app, &["--failed-before", "2001-01-01T00:00:00Z"]).len(), 0);
    let page = app.run(&["dead", "list", "--limit", "3", "--json"]).json();
    assert_eq!(list(&app, &["--cursor", page["next_cursor"].as_str().unwrap()]).len(), 1);
    let words = app.run(&["dead", "list"]);
    assert!(words.stdout.contains("failed/permanent") && words.stdout.contains(print), "{words:?}");
    let id = groups[1]["sample_id"].as_str().unwrap();
    let shown = app.run(&["dead", "show", id]);
    assert!(shown.stdout.contains("demo.fail") && shown.stdout.contains("disk full"), "{shown:?}");
    app.run(&["dead", "show", &Uuid::now_v7().to_string()]).refused("JF007");
    app.run(&["dead", "list", "--cursor", "x"]).refused("JF001");
}

/// What a job says is told in full to programs; a terminal is not moved, coloured or retitled by it.
#[tokio::test]
async fn what_a_job_says_does_not_drive_the_terminal() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let message = "\u{1b}[31mred\u{1b}]0;title\u{7} \r over\u{7f}\u{9b}2J\nsecond line";
    let payload = serde_json::json!({ "message": message }).to_string();
    let made = app.run(&["enqueue", "demo.fail", "--payload", &payload, "--json"]).json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(worker.run(&["tick", "--json"]).json()["failed"], 1);
    for args in [&["jobs", "list"][..], &["jobs", "show", id], &["dead", "list"], &["dead", "groups"]] {
        let shown = app.run(args);
        assert_eq!(shown.code, 0, "{shown:?}");
        assert!(shown.stdout.chars().all(|c| c == '\n' || !c.is_control()), "{args:?}: {shown:?}");
        assert!(shown.stdout.contains("\\u{1b}"), "{args:?}: {shown:?}");
    }
    let shown = app.run(&["jobs", "show", id]);
    assert!(
        shown.stdout.lines().any(|line| line.trim() == "second line"),
        "an error has its lines: {shown:?}"
    );
    let escaped = "\\u{1b}[31mred\\u{1b}]0;title\\u{7} \\r over\\u{7f}\\u{9b}2J";
    assert!(shown.stdout.contains(escaped), "{shown:?}");
    let told = app.run(&["jobs", "show", id, "--json"]).json();
    assert!(told["job"]["error"].as_str().unwrap().contains(message), "{told}");
}

#[tokio::test]
async fn a_group_is_counted_redriven_and_undone() {
    let (_db, app, worker) = graveyard().await;
    let groups = app.run(&["dead", "groups", "--json"]).json();
    let print = groups[0]["fingerprint"].as_str().unwrap();
    let dry = app.run(&["dead", "redrive", "--fingerprint", print, "--dry-run"]);
    assert!(dry.stdout.starts_with("3 dead letters match"), "{dry:?}");
    assert_eq!(list(&app, &[]).len(), 4);

    let done =
        app.run(&["dead", "redrive", "--fingerprint", print, "--reason", "users are back", "--json"]).json();
    assert_eq!(
        (&done["status"], &done["done"], &done["skipped"]),
        (&"finished".into(), &3.into(), &0.into())
    );
    assert_eq!(list(&app, &[]).len(), 1);
    let operation = done["id"].as_str().unwrap();
    let shown = app.run(&["dead", "show", operation]);
    for part in ["redrive", "users are back", "3 done", "redriven", print] {
        assert!(shown.stdout.contains(part), "{part}: {shown:?}");
    }
    let operations = app.run(&["dead", "operations"]);
    assert!(operations.stdout.contains(operation) && operations.stdout.contains("dry run"), "{operations:?}");

    // One starts and dies again; the two that wait are dead letters again.
    assert_eq!(worker.run(&["tick", "--limit", "1", "--json"]).json()["failed"], 1);
    let undone = app.run(&["dead", "undo", operation, "--json"]).json();
    assert_eq!(
        (&undone["status"], &undone["undone"], &undone["kept"]),
        (&"undone".into(), &2.into(), &1.into())
    );
    assert_eq!(list(&app, &[]).len(), 4);
    assert_eq!(worker.run(&["tick"]).stdout, "nothing was due\n");
    app.run(&["dead", "undo", &Uuid::now_v7().to_string()]).refused("JF007");
    assert_eq!(app.run(&["dead", "resume", operation, "--json"]).json()["status"], "undone");
}

#[tokio::test]
async fn a_redrive_that_was_killed_is_resumed() {
    let (db, app, _worker) = graveyard().await;
    let (holder, admin) = (db.session().await, db.connect_super().await);
    holder.begin().await;
    holder.run("select from jobforge.jobs limit 1 for update").await;
    let mut child = app.command().args(["dead", "redrive", "--all"]).spawn().unwrap();
    let waits =
        "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let deadline = Instant::now() + PATIENCE;
    let pid: i32 = loop {
        if let Some(row) = admin.query_opt(waits, &[]).await.unwrap() {
            break row.get(0);
        }
        assert!(Instant::now() < deadline, "the redrive did not come to its first step");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    child.kill().unwrap();
    child.wait().unwrap();
    // What the server does once it notices that nobody listens any more.
    admin.query_one("select pg_terminate_backend($1, 10000)", &[&pid]).await.unwrap();
    holder.rollback().await;

    assert_eq!(list(&app, &[]).len(), 4, "nothing is half done");
    let operations = app.run(&["dead", "operations", "--json"]).json();
    assert_eq!((&operations[0]["status"], &operations[0]["matched"]), (&"running".into(), &4.into()));
    let done = app.run(&["dead", "resume", operations[0]["id"].as_str().unwrap(), "--json"]).json();
    assert_eq!((&done["status"], &done["done"]), (&"finished".into(), &4.into()));
    assert_eq!(list(&app, &[]).len(), 0);
}

#[tokio::test]
async fn a_job_is_redriven_with_its_payload_edited() {
    let (_db, app, worker) = graveyard().await;
    let groups = app.run(&["dead", "groups", "--json"]).json();
    let id = groups[1]["sample_id"].as_str().unwrap().to_owned();
    fs::write(
        app.dir.path().join("edit.json"),
        r#"[{"op": "replace", "path": "/message", "value": "edited"}, {"op": "add", "path": "/n", "value": 1.10}]"#,
    )
    .unwrap();
    let misfit = r#"[{"op": "test", "path": "/message", "value": "another"}]"#;
    let skipped = app.run(&["dead", "redrive", &id, "--patch", misfit]);
    assert_eq!(skipped.code, 1, "{skipped:?}");
    assert!(
        skipped.stdout.contains("skipped") && skipped.stdout.contains("JF003 patch_test_failed"),
        "{skipped:?}"
    );
    let dry = app.run(&["dead", "redrive", &id, "--patch", "@edit.json", "--dry-run", "--json"]).json();
    assert_eq!((&dry["jobs"][0]["verdict"], &dry["operation_id"]), (&"redrivable".into(), &Value::Null));
    let done =
        app.run(&["dead", "redrive", &id, "--patch", "@edit.json", "--max-attempts", "9", "--json"]).json();
    assert_eq!(done["jobs"][0]["verdict"], "redriven");
    let shown = app.run(&["jobs", "show", &id, "--json"]);
    assert!(shown.stdout.contains("1.10") && shown.stdout.contains("edited"), "{shown:?}");
    assert_eq!(shown.json()["job"]["max_attempts"], 9);
    let record = app.run(&["dead", "show", done["operation_id"].as_str().unwrap(), "--json"]).json();
    assert_eq!(record["results"][0]["before"]["payload"]["message"], "disk full", "what it was is kept");
    worker.run(&["tick", "--json"]).json();
    assert_eq!(list(&app, &["--limit", "1"])[0]["error"], "edited");
}

#[tokio::test]
async fn everything_is_redriven_only_when_that_is_said() {
    let (_db, app, _worker) = graveyard().await;
    let vague = app.run(&["dead", "redrive"]);
    assert_eq!(vague.code, 2, "{vague:?}");
    assert!(vague.stderr.contains("--all"), "{vague:?}");
    let id = Uuid::now_v7().to_string();
    assert_eq!(app.run(&["dead", "redrive", &id, "--all"]).code, 2);
    let bad = app.run(&["dead", "redrive", "--all", "--patch", "not json"]);
    assert!(bad.code == 1 && bad.stderr.contains("the patch is not JSON"), "{bad:?}");
    app.run(&["dead", "redrive", "--all", "--patch", "[]"]).refused("JF001");
    app.run(&["dead", "redrive", "--all", "--patch", r#"[{"op": "add", "path": "/a", "value": "\u0000"}]"#])
        .refused("JF001");
    assert_eq!(list(&app, &[]).len(), 4);
    let done = app.run(&["dead", "redrive", "--all"]);
    assert!(done.stdout.starts_with("4 redriven"), "{done:?}");
    assert_eq!(app.run(&["dead", "list"]).stdout, "no dead letters\n");
    assert_eq!(app.run(&["dead", "groups"]).stdout, "no dead letters\n");
}

/// By a filter as by ids: whoever sees none of them go hears it in the exit code, and is offered no undoing of nothing.
#[tokio::test]
async fn a_redrive_of_many_that_takes_none_fails() {
    let (_db, app, _worker) = graveyard().await;
    let patch = r#"[{"op": "remove", "path": "/nowhere"}]"#;
    let none = app.run(&["dead", "redrive", "--type", "demo.fail", "--patch", patch]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.stdout.starts_with("0 redriven, 4 skipped") && !none.stdout.contains("Undo"), "{none:?}");
    let operations = app.run(&["dead", "operations", "--json"]).json();
    let resumed = app.run(&["dead", "resume", operations[0]["id"].as_str().unwrap()]);
    assert_eq!((resumed.code, resumed.stdout), (1, none.stdout), "{}", resumed.stderr);
    let counted = app.run(&["dead", "redrive", "--type", "demo.fail", "--patch", patch, "--dry-run"]);
    assert_eq!(counted.code, 0, "{counted:?}");
    let nothing = app.run(&["dead", "redrive", "--type", "demo.nothing"]);
    assert_eq!(nothing.code, 0, "nothing was asked of it: {nothing:?}");
}
