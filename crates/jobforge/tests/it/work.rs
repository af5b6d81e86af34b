//! `jobforge work` as a process among others.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use jobforge_testkit::{APP, OPERATOR, WORKER};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{Cli, Ran, demo_db, jobforge, run, until};

#[tokio::test]
async fn a_worker_refuses_a_login_that_may_do_too_much() {
    let db = demo_db().await;
    let mut cli = Cli::new(&db, WORKER);
    cli.url = db.super_url();
    let refused = cli.run(&["work"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("is a superuser"), "{refused:?}");
    assert!(refused.stderr.contains("hint: use a login"), "{refused:?}");
}

#[tokio::test]
async fn queues_that_cannot_be_are_refused_and_blanks_around_commas_are_none_of_their_names() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    app.run(&["enqueue", "demo.echo", "--queue", "mail", "--json"]).json();
    for args in [
        ["work", "--queues", ""],
        ["work", "--queues", "mail,x://u:canary@h"],
        ["tick", "--queues", "mail,-a"],
    ] {
        let args = [&args[..], if args[0] == "work" { &["--once"] } else { &[] }].concat();
        let refused = worker.run(&args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains("no queue can have the name"), "{refused:?}");
        assert!(!refused.stderr.contains("canary"), "{refused:?}");
    }
    let twice = worker.run(&["tick", "--queues", "mail,mail"]);
    assert!(twice.code == 2 && twice.stderr.contains("queue 2 is named twice"), "{twice:?}");
    let blank =
        worker.command().arg("tick").env("JOBFORGE_WORKER__QUEUES", "default, mail").output().unwrap();
    let blank = Ran::of(blank);
    let told = "worker.queues: no queue can have the name of queue 2";
    assert!(blank.code == 2 && blank.stderr.contains(told), "{blank:?}");
    // Before there is a Postgres for them.
    let dir = tempfile::tempdir().unwrap();
    let dev =
        jobforge(dir.path()).arg("dev").env("JOBFORGE_WORKER__QUEUES", "default, mail").output().unwrap();
    let dev = Ran::of(dev);
    assert!(dev.code == 2 && dev.stderr.contains(told) && !dir.path().join(".jobforge").exists(), "{dev:?}");
    assert_eq!(worker.run(&["work", "--once", "--queues", "default, mail", "--json"]).json()["completed"], 1);
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_ends_what_it_has_begun() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let mut child = worker
        .command()
        .args(["work", "--queues", "default,side", "--concurrency", "2", "--json"])
        .env("JOBFORGE_LOG__FILTER", "info,jobforge_worker::jobs=debug")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = |message: &str| {
        let lines = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        lines.into_iter().find(|line| line["message"] == message).unwrap()
    };
    let ready = said("the worker is ready");
    assert!(ready["worker_id"].is_string() && ready["level"] == "INFO" && ready["timestamp"].is_string());

    let args = ["enqueue", "demo.sleep", "--queue", "side", "--payload", "{\"ms\": 4000}", "--json"];
    let id = app.run(&args).json()["id"].as_str().unwrap().to_owned();
    said("the job starts");
    // As when its terminal is closed.
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGHUP).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let ended = Ran::of(child.wait_with_output().unwrap());
    let waiting = rest.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let waiting: Vec<Value> =
        waiting.filter(|line| line["message"].as_str().unwrap().contains("waiting for")).collect();
    assert!(!waiting.is_empty(), "{}", rest.join("\n"));
    for line in &waiting {
        assert_eq!((&line["job_id"], &line["fields"]["running"]), (&id.as_str().into(), &1.into()), "{line}");
        assert!(line["duration_ms"].as_u64().is_some_and(|ms| ms > 0), "{line}");
    }
    assert_eq!(ended.json()["completed"], 1, "{ended:?}\n{}", rest.join("\n"));
    assert_eq!(app.run(&["jobs", "show", &id, "--json"]).json()["job"]["status"], "succeeded");
}

#[tokio::test]
async fn a_tick_that_is_told_to_stop_ends_what_it_has_begun() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let enqueue = |ms: &str| {
        let made = app.run(&["enqueue", "demo.sleep", "--payload", &format!("{{\"ms\": {ms}}}"), "--json"]);
        made.json()["id"].as_str().unwrap().to_owned()
    };
    let shown = |id: &str| app.run(&["jobs", "show", id, "--json"]).json()["job"].clone();
    let tick = |id: &str| {
        let mut command = worker.command();
        command.args(["tick", "--limit", "1", "--json"]).env("JOBFORGE_LOG__FILTER", "info");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the job runs", || (shown(id)["status"] == "running").then_some(()));
        child
    };
    let stop = |child: &Child, signal| {
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    };

    let short = enqueue("4000");
    let child = tick(&short);
    stop(&child, Signal::SIGTERM);
    let ended = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ended.json()["completed"], 1, "{ended:?}");
    assert_eq!(shown(&short)["status"], "succeeded");

    // A second signal does not wait for the job, and gives it back at once.
    let long = enqueue("600000");
    let mut child = tick(&long);
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    stop(&child, Signal::SIGINT);
    let stops = lines.map(Result::unwrap).find(|line| line.contains("waiting for running jobs"));
    assert!(stops.is_some(), "it does not tell what it waits for");
    stop(&child, Signal::SIGINT);
    let ended = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{ended:?}");
    assert_eq!(ended.parsed()["released"], 1, "{ended:?}");
    let back = shown(&long);
    assert_eq!((&back["status"], &back["deaths"]), (&"queued".into(), &0.into()), "{back}");
}

#[tokio::test]
async fn once_runs_what_is_due_of_the_types_asked_for_and_ends() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    app.run(&["enqueue", "demo.echo", "--count", "30", "--json"]).json();
    app.run(&["enqueue", "demo.fail", "--json"]).json();
    app.run(&["enqueue", "demo.sleep", "--payload", "{\"ms\": 1}", "--json"]).json();
    app.run(&["enqueue", "demo.echo", "--delay", "1h", "--json"]).json();

    let refused = worker.run(&["work", "--once", "--types", "demo.echo,demo.nothing"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains("no handler for demo.nothing; it has some for"), "{refused:?}");
    assert!(refused.stderr.contains("demo.echo"), "{refused:?}");

    let ran =
        worker.run(&["work", "--once", "--types", "demo.echo,demo.fail", "--slots", "3", "--json"]).json();
    assert_eq!(
        (&ran["claimed"], &ran["completed"], &ran["failed"]),
        (&31.into(), &30.into(), &1.into()),
        "{ran}"
    );
    let left = app.run(&["jobs", "list", "--status", "queued", "--json"]).json();
    assert_eq!(left["jobs"].as_array().unwrap().len(), 2, "{left}");
}

#[tokio::test]
async fn the_registry_tells_who_works_and_who_went_silent() {
    let db = demo_db().await;
    let (worker, operator) = (Cli::new(&db, WORKER), Cli::new(&db, OPERATOR));
    worker
        .run(&["work", "--once", "--queues", "side", "--types", "demo.echo", "--concurrency", "7", "--json"])
        .json();
    let listed = operator.run(&["workers", "--json"]).json();
    let listed = &listed[0];
    let id: Vec<&str> = listed["worker_id"].as_str().unwrap().split(':').collect();
    let (host, pid) = (listed["host"].as_str().unwrap(), listed["pid"].to_string());
    assert_eq!((id[0], id[1]), (host, pid.as_str()), "host:pid:boot-uuid");
    assert_eq!(id[2].len(), 36);
    assert_eq!((&listed["queues"][0], &listed["types"][0]), (&"side".into(), &"demo.echo".into()));
    assert_eq!(
        (&listed["slots"], &listed["running"], &listed["stale"]),
        (&7.into(), &0.into(), &false.into())
    );
    assert!(
        listed["version"].is_string() && listed["last_seen"].is_string() && listed["metadata"].is_object()
    );

    let gone = "update jobforge.workers set stopped_at = null, last_seen = last_seen - interval '2 minutes',
                metadata = '{\"zone\": \"b\"}'";
    db.connect_super().await.batch_execute(gone).await.unwrap();
    assert_eq!(operator.run(&["workers", "--json"]).json()[0]["stale"], true);
    let table = operator.run(&["workers"]).stdout;
    assert!(table.contains("stale") && table.contains("demo.echo") && table.contains("zone"), "{table}");
}

#[test]
fn no_slots_at_all_are_a_wrong_use() {
    for args in [&["bench", "--slots", "0", "--jobs", "1"][..], &["work", "--concurrency", "0"]] {
        let none = run(tempfile::tempdir().unwrap().path(), args);
        assert_eq!(none.code, 2, "{args:?}: {none:?}");
        assert!(none.stderr.contains("from 1 to 10000"), "{none:?}");
    }
}
