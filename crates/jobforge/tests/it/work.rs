//! `jobforge work` as a process among others.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use jobforge_testkit::{APP, WORKER};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{Cli, Ran, demo_db, until};

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
async fn a_worker_that_is_told_to_stop_ends_what_it_has_begun() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let mut child = worker
        .command()
        .args(["work", "--queues", "default,side", "--slots", "2", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let ready = ready.into_iter().find(|line| line["message"] == "the worker is ready").unwrap();
    assert!(ready["worker_id"].is_string() && ready["level"] == "INFO" && ready["timestamp"].is_string());

    let args = ["enqueue", "demo.sleep", "--queue", "side", "--payload", "{\"ms\": 4000}", "--json"];
    let id = app.run(&args).json()["id"].as_str().unwrap().to_owned();
    until("the job runs", || {
        let status = app.run(&["jobs", "show", &id, "--json"]).json()["job"]["status"].clone();
        (status == "running").then_some(())
    });
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let ended = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ended.json()["completed"], 1, "{ended:?}\n{}", rest.join("\n"));
    assert_eq!(app.run(&["jobs", "show", &id, "--json"]).json()["job"]["status"], "succeeded");
}
