//! Enqueueing jobs and looking after them.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use jobforge_testkit::{APP, OPERATOR, TestDb, WORKER};
use serde_json::Value;
use uuid::Uuid;

use crate::{Cli, Ran, demo_db, run};

fn id(made: &Value) -> &str {
    made["id"].as_str().unwrap()
}

#[tokio::test]
async fn a_job_is_enqueued_listed_shown_and_canceled() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    let made =
        cli.run(&["enqueue", "test.noop", "--payload", "{\"n\": 1.10}", "--delay", "1h", "--json"]).json();
    assert_eq!((&made["status"], &made["existing"]), (&"queued".into(), &false.into()));
    let shown = cli.run(&["jobs", "show", id(&made), "--json"]);
    assert!(shown.stdout.contains("1.10"), "numbers stay as they are: {shown:?}");
    let words = cli.run(&["jobs", "show", id(&made)]);
    assert!(words.stdout.contains("test.noop") && words.stdout.contains("payload"), "{words:?}");
    let list = cli.run(&["jobs", "list"]);
    assert!(list.stdout.contains(id(&made)) && list.stdout.contains("queued"), "{list:?}");

    let sooner = cli.run(&["jobs", "retry", id(&made), "--json"]).json();
    assert_eq!(sooner["status"], "queued");
    let canceled = cli.run(&["jobs", "cancel", id(&made), "--reason", "no longer wanted", "--json"]).json();
    assert_eq!(canceled["status"], "canceled");
    cli.run(&["jobs", "retry", id(&made)]).refused("JF008");
    cli.run(&["jobs", "show", &Uuid::now_v7().to_string()]).refused("JF007");
}

#[tokio::test]
async fn a_limit_or_a_delay_out_of_bounds_is_told_and_a_past_time_means_now() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    cli.run(&["jobs", "list", "--limit", "0"]).refused("JF001");
    cli.run(&["jobs", "list", "--limit", "2147483647"]).refused("JF001");
    let beyond = cli.run(&["jobs", "list", "--limit", "2147483648"]);
    assert!(beyond.code == 2 && beyond.stderr.contains("--limit"), "{beyond:?}");
    cli.run(&["enqueue", "test.noop", "--delay", "100000h"]).refused("JF001");
    cli.run(&["enqueue", "test.noop", "--delay=-100000h"]).refused("JF001");
    let now = cli.run(&["enqueue", "test.noop", "--delay=-5s", "--json"]).json();
    let due = cli.run(&["jobs", "show", id(&now), "--json"]).json();
    assert_eq!(due["job"]["run_at"], due["job"]["created_at"], "{due}");
}

#[tokio::test]
async fn a_waiting_job_is_explained_and_counted() {
    let db = TestDb::new().await;
    let (cli, operator) = (Cli::new(&db, APP), Cli::new(&db, OPERATOR));
    let later = cli.run(&["enqueue", "test.noop", "--delay", "1h", "--json"]).json();
    let told = cli.run(&["jobs", "explain", id(&later), "--json"]).json();
    assert_eq!(told[0]["reason"], "scheduled");
    assert!(
        told[0]["detail"]["seconds"].as_f64().unwrap() > 3500.0 && told[0]["until"].is_string(),
        "{told}"
    );
    let words = cli.run(&["jobs", "explain", id(&later)]);
    assert!(words.stdout.starts_with("scheduled") && words.stdout.contains("is due in"), "{words:?}");
    let now = cli.run(&["enqueue", "test.noop", "--queue", "side", "--json"]).json();
    let words = cli.run(&["jobs", "explain", id(&now)]);
    assert!(words.stdout.starts_with("no_worker"), "nobody serves this queue: {words:?}");
    cli.run(&["jobs", "explain", &Uuid::now_v7().to_string()]).refused("JF007");

    let summary = cli.run(&["jobs", "summary", "--json"]).json();
    assert_eq!(
        (&summary["ready"], &summary["scheduled"], &summary["hour"]),
        (&1.into(), &1.into(), &Value::Null)
    );
    let words = cli.run(&["jobs", "summary"]);
    assert!(words.stdout.contains("nobody samples"), "{words:?}");

    let queues = operator.run(&["queues", "--json"]).json();
    let side = queues.as_array().unwrap().iter().find(|queue| queue["queue"] == "side").unwrap().clone();
    assert_eq!((&side["ready"], &side["workers"]), (&1.into(), &0.into()));
    let words = operator.run(&["queues"]);
    assert!(words.stdout.contains("side") && words.stdout.contains("unserved"), "{words:?}");
    assert_eq!(cli.run(&["queues"]).code, 1, "a tenant's login sees no queues of all");
}

#[tokio::test]
async fn a_list_is_filtered_and_paged() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    let made = cli.run(&["enqueue", "test.noop", "--count", "5", "--json"]).json();
    assert_eq!(made["count"], 5);
    cli.run(&["enqueue", "test.other", "--queue", "side", "--json"]).json();
    let list = |args: &[&str]| cli.run(&[&["jobs", "list", "--json"], args].concat()).json();
    assert_eq!(list(&["--type", "test.other"])["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(list(&["--queue", "side"])["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(list(&["--status", "running,failed"])["jobs"].as_array().unwrap().len(), 0);
    let first = list(&["--limit", "4"]);
    let rest = list(&["--limit", "4", "--cursor", first["next_cursor"].as_str().unwrap()]);
    assert_eq!(rest["jobs"].as_array().unwrap().len(), 2);
    cli.run(&["jobs", "list", "--status", "sleeping"]).refused("JF001");
}

#[tokio::test]
async fn refusals_carry_their_code() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    cli.run(&["enqueue", "test.noop", "--payload", "{not json"]).refused("JF003");
    cli.run(&["enqueue", "test.unknown"]).refused("JF002");
    let keyed = |payload: &str| {
        cli.run(&["enqueue", "test.noop", "--idempotency-key", "k", "--payload", payload, "--json"])
    };
    let first = keyed("1").json();
    let again = keyed("1").json();
    assert_eq!((&again["id"], &again["existing"]), (&first["id"], &true.into()));
    let conflict = keyed("2");
    assert_eq!(conflict.code, 1);
    let told: Value = serde_json::from_str(&conflict.stderr).unwrap();
    assert_eq!(told["error"]["code"], "JF004", "{told}");
    assert_eq!(told["error"]["hint"], "see docs/errors/JF004.md");

    let worker = Cli::new(&db, WORKER).run(&["enqueue", "test.noop"]);
    assert_eq!(worker.code, 1);
    assert!(worker.stderr.contains("producers need jf_tenant"), "{worker:?}");
}

#[tokio::test]
async fn a_payload_comes_from_a_file_or_from_stdin() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    let file = cli.dir.path().join("payload.json");
    fs::write(&file, "{\"from\": \"file\"}").unwrap();
    let made = cli.run(&["enqueue", "test.noop", "--payload", "@payload.json", "--json"]).json();
    let shown = cli.run(&["jobs", "show", id(&made), "--json"]).json();
    assert_eq!(shown["job"]["payload"]["from"], "file");
    let keyed = cli.run(&["enqueue", "test.noop", "--concurrency-key", "account-7", "--json"]).json();
    let shown = cli.run(&["jobs", "show", id(&keyed), "--json"]).json();
    assert_eq!(shown["job"]["concurrency_key"], "account-7");

    let mut child = cli
        .command()
        .args(["enqueue", "test.noop", "--payload", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"[\"stdin\"]").unwrap();
    let made = Ran::of(child.wait_with_output().unwrap()).json();
    let shown = cli.run(&["jobs", "show", id(&made), "--json"]).json();
    assert_eq!(shown["job"]["payload"][0], "stdin");
}

#[tokio::test]
async fn a_tick_runs_at_most_so_many_jobs() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    app.run(&["enqueue", "demo.echo", "--count", "5", "--json"]).json();
    let tick = |limit: &str| worker.run(&["tick", "--limit", limit, "--json"]).json()["completed"].clone();
    assert_eq!(tick("3"), 3);
    assert_eq!(tick("3"), 2);
    assert_eq!(worker.run(&["tick"]).stdout, "nothing was due\n");
}

#[tokio::test]
async fn a_failed_job_becomes_a_dead_letter_and_runs_again_when_asked() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let made = app.run(&["enqueue", "demo.fail", "--payload", "{\"message\": \"broken\"}", "--json"]).json();
    assert_eq!(worker.run(&["tick", "--json"]).json()["failed"], 1);
    let shown = app.run(&["jobs", "show", id(&made)]);
    for part in ["failed", "broken (permanent)", "about to fail"] {
        assert!(shown.stdout.contains(part), "{part}: {shown:?}");
    }
    app.run(&["jobs", "retry", id(&made), "--json"]).json();
    assert_eq!(worker.run(&["tick", "--json"]).json()["failed"], 1);
    let attempts = app.run(&["jobs", "show", id(&made), "--json"]).json()["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 2);
}

#[test]
fn without_a_database_the_way_to_one_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let lost = run(dir.path(), &["jobs", "list"]);
    assert_eq!(lost.code, 2, "{lost:?}");
    assert!(lost.stderr.contains("jobforge dev"), "{lost:?}");
    let away = run(
        dir.path(),
        &[
            "jobs",
            "list",
            "--tenant",
            &Uuid::nil().to_string(),
            "--database-url",
            "postgres://nobody:secret@127.0.0.1:1/none",
        ],
    );
    assert_eq!(away.code, 1, "{away:?}");
    assert!(away.stderr.contains("no connection to 127.0.0.1:1/none as nobody"), "{away:?}");
    assert!(!away.stderr.contains("secret"));
}

#[tokio::test]
async fn a_time_that_no_calendar_knows_is_refused() {
    let db = demo_db().await;
    let (app, operator) = (Cli::new(&db, APP), Cli::new(&db, OPERATOR));
    let endless = "200000000h";
    for length in [endless, "-200000000h"] {
        let length = format!("--delay={length}");
        let refused = app.run(&["enqueue", "demo.echo", &length]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("--delay"), "{refused:?}");
    }
    let pause: &[&str] = &["pause", "queue", "default", "--reason", "test", "--for", endless];
    let key: &[&str] = &["keys", "create", "producer", "--name", "x", "--for", endless];
    for args in [pause, key] {
        let refused = operator.run(args);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("--for"), "{refused:?}");
    }
    let odd = operator.run(&["doctor", "--json", "--snapshot-age", endless]);
    assert!([0, 1].contains(&odd.code), "{odd:?}");
    assert_eq!(app.run(&["jobs", "list", "--json"]).json()["jobs"], serde_json::json!([]));
}

#[tokio::test]
async fn a_result_whose_reader_went_away_is_no_failure() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let made = app.run(&["enqueue", "demo.echo", "--payload", r#"{"n": 1}"#, "--json"]).json();
    assert_eq!(worker.run(&["tick", "--json"]).json()["completed"], 1);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = app.command();
    let unread = command.args(["jobs", "result", made["id"].as_str().unwrap()]).stdout(writer);
    let unread = Ran::of(unread.output().unwrap());
    assert_eq!((unread.code, unread.stderr.as_str()), (0, ""), "{unread:?}");
}
