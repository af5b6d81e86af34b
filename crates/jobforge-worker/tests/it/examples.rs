//! The examples do what they say, on a real database.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use jobforge_core::{Definition, NewJob, rpc};
use jobforge_testkit::{APP, PASSWORD, TENANT_A, WORKER};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use uuid::Uuid;

use crate::support::Story;

/// An example as Cargo built it beside this test, on the story's database.
fn example(story: &Story, login: &str, name: &str) -> Command {
    let beside: PathBuf = std::env::current_exe().unwrap();
    let mut command = Command::new(beside.ancestors().nth(2).unwrap().join("examples").join(name));
    command.env("JOBFORGE_DATABASE_URL", story.db.url_as(login, Some(PASSWORD)));
    command
}

async fn begin(job_type: &str) -> Story {
    let story = Story::begin().await;
    rpc::upsert_definition(&story.operator, &Definition::new(job_type)).await.unwrap();
    story
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_lines_are_a_worker() {
    let story = begin("mail.send").await;
    let mut child = example(&story, WORKER, "ten_lines").stdout(Stdio::piped()).spawn().unwrap();
    let id = story.enqueue_job(NewJob::new("mail.send", &json!({ "to": "ada" })).unwrap()).await;
    let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert_eq!(line, "a mail goes to ada");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(story.job(id).await.status, "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_hold_a_job_and_what_belongs_to_it_together() {
    let story = begin("order.ship").await;
    let tables = format!(
        "create table public.orders (number text primary key); grant insert on public.orders to {APP};
         create table public.shipments (number text); grant insert on public.shipments to {WORKER}"
    );
    story.db.connect_super().await.batch_execute(&tables).await.unwrap();
    let order = || {
        let mut command = example(&story, APP, "transactional_enqueue");
        command.args([&TENANT_A.to_string(), "A-1"]).output().unwrap()
    };
    let id: Uuid = said(&order()).parse().unwrap();
    assert_eq!(story.job(id).await.status, "queued");
    let again = order();
    assert!(!again.status.success(), "the same order twice: {again:?}");
    assert_eq!(story.count("select count(*) from jobforge.jobs").await, 1);

    let ship = || said(&example(&story, WORKER, "transactional_completion").output().unwrap());
    assert_eq!(ship(), "shipped 1");
    assert_eq!(ship(), "shipped 0");
    assert_eq!(story.job(id).await.status, "succeeded");
    assert_eq!(story.count("select count(*) from public.shipments").await, 1);
}
