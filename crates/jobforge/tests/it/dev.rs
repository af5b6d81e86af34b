//! `jobforge dev` from its first start to its last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use jobforge_postgres::Cluster;
use jobforge_testkit::{PrivateCluster, connect};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::dev_server::{DevServer, open_dir, postgres_runs};
use crate::{Ran, jobforge, run, until};

/// What `jobforge doctor` looks at.
const CHECKS: [&str; 24] = [
    "server",
    "login",
    "clock",
    "schema",
    "roles",
    "row security",
    "isolation probe",
    "indexes",
    "drift: tables",
    "drift: security",
    "drift: functions",
    "bloat: jobs",
    "bloat: leases",
    "bloat: lease_claims",
    "snapshot holders",
    "partitions ahead",
    "default partition",
    "scheduler",
    "workers",
    "lost attempts",
    "stuck leases",
    "stranded jobs",
    "starving limits",
    "forgotten pauses",
];

#[test]
fn a_development_server_runs_jobs_refuses_a_second_one_stops_cleanly_and_keeps_its_data() {
    let dir = open_dir();
    let server = DevServer::start(dir.path(), &["--no-demo"]);
    let text = fs::read_to_string(server.dev_file()).unwrap();
    let announced: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(fs::metadata(server.dev_file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(announced["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{announced}");
    assert_eq!(names(&announced), ["database_url", "keys", "tenant_id", "url"]);
    assert_eq!(names(&announced["keys"]), ["admin", "tenant", "worker"]);
    let password = announced["database_url"].as_str().unwrap().split([':', '@']).nth(2).unwrap().to_owned();
    assert!(password.len() > 20 && !server.stderr().contains(&password), "a password was printed");

    let made =
        server.run(&["enqueue", "demo.echo", "--payload", "{\"big\": 9007199254740993}", "--json"]).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let shown = server.job_that_is("succeeded", &id);
    assert_eq!(shown["job"]["result"].to_string(), "{\"big\":9007199254740993}");
    assert_eq!(shown["attempts"][0]["status"], "succeeded");

    let second = run(dir.path(), &["dev", "--no-demo"]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.stderr.contains("runs in .jobforge already"), "{second:?}");

    let health = server.run(&["doctor", "--json"]);
    assert_eq!(health.code, 0, "{health:?}");
    let report = health.parsed();
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    let checks: BTreeMap<_, _> = checks.map(|check| (text(check, "name"), text(check, "verdict"))).collect();
    assert_eq!(checks, CHECKS.map(|name| (name.to_owned(), "ok".to_owned())).into(), "{health:?}");
    assert_eq!(server.run(&["workers", "--json"]).json().as_array().unwrap().len(), 1);
    let bench = server.run(&["bench", "--jobs", "500", "--json"]).json();
    assert_eq!(bench["figures"][1]["workload"], "drain");

    assert!(server.stop(Signal::SIGINT).success());
    assert!(!dir.path().join(".jobforge/dev.json").exists());
    assert!(!postgres_runs(dir.path()));

    let again = DevServer::start(dir.path(), &["--no-demo"]);
    again.job_that_is("succeeded", &id);
    assert!(again.stop(Signal::SIGTERM).success());
    assert!(!postgres_runs(dir.path()));
}

fn names(object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn what_is_announced_is_the_login_of_an_application_of_the_demo_tenant() {
    let dir = open_dir();
    let server = DevServer::start(dir.path(), &["--no-demo"]);
    let announced: Value = serde_json::from_str(&fs::read_to_string(server.dev_file()).unwrap()).unwrap();
    let mut app = connect(announced["database_url"].as_str().unwrap()).await;
    let tenant: Uuid = announced["tenant_id"].as_str().unwrap().parse().unwrap();
    let mine = app.transaction().await.unwrap();
    mine.execute("select set_config('app.tenant_id', $1::text, true)", &[&tenant.to_string()]).await.unwrap();
    let enqueue =
        "select id from jobforge.enqueue_job(p_tenant_id => $1, p_type => 'demo.echo', p_payload => '{}')";
    let id: Uuid = mine.query_one(enqueue, &[&tenant]).await.unwrap().get(0);
    let list = "select id from jobforge.list_jobs(p_tenant_id => $1) where id is not null";
    let listed: Vec<Uuid> =
        mine.query(list, &[&tenant]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(listed, [id]);
    mine.commit().await.unwrap();
    server.job_that_is("succeeded", &id.to_string());

    for beyond in [
        "select * from jobforge.claim_jobs('w', '{default}', '{demo.echo}')",
        "select * from jobforge.lead('l')",
    ] {
        let refused = app.query(beyond, &[]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{beyond}: {refused:?}");
    }
    drop(app);
    assert!(server.stop(Signal::SIGINT).success());
}

#[test]
fn the_demo_is_lively() {
    let dir = open_dir();
    let server = DevServer::start(dir.path(), &[]);
    let all = ["demo.echo", "demo.fail", "demo.flaky", "demo.progress", "demo.sleep"];
    until("jobs of every type came by, and some succeeded", || {
        let page = server.run(&["jobs", "list", "--limit", "500", "--json"]).json();
        let jobs = page["jobs"].as_array().unwrap();
        let types: BTreeSet<&str> = jobs.iter().map(|job| job["type"].as_str().unwrap()).collect();
        let succeeded = jobs.iter().any(|job| job["status"] == "succeeded");
        (succeeded && types == BTreeSet::from(all)).then_some(())
    });
    until("the summary tells of it", || server.stderr().contains("succeeded ").then_some(()));
    assert!(server.stop(Signal::SIGINT).success());
}

#[test]
fn a_second_signal_does_not_wait_for_jobs_and_gives_them_back() {
    let dir = open_dir();
    let (mut server, job) = stopping(dir.path());
    server.signal(Signal::SIGINT);
    assert_eq!(server.ended().code(), Some(130));
    assert!(!postgres_runs(dir.path()));

    let again = DevServer::start(dir.path(), &["--no-demo"]);
    let shown = again.job_that_is("running", job["id"].as_str().unwrap());
    assert_ne!(shown["job"]["worker_id"], job["worker_id"], "{shown}");
    assert_eq!((&shown["job"]["attempt"], &shown["job"]["deaths"]), (&2.into(), &0.into()), "{shown}");
}

#[tokio::test]
async fn a_third_signal_does_not_wait_for_jobs_to_be_given_back() {
    let dir = open_dir();
    let (mut server, _) = stopping(dir.path());
    let cluster = Cluster::running(&dir.path().join(".jobforge/postgres")).unwrap().unwrap();
    let holder = connect(&cluster.superuser_url("jobforge")).await;
    holder.batch_execute("begin; lock table jobforge.jobs in access exclusive mode").await.unwrap();
    // Two of one kind could be heard as one.
    server.signal(Signal::SIGINT);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(130));
    assert!(!postgres_runs(dir.path()));
}

/// One that was told to stop, and waits for a job for longer than a test does.
fn stopping(dir: &Path) -> (DevServer, Value) {
    fs::write(dir.join("jobforge.toml"), "[worker]\nlease_seconds = 3600\ngrace_seconds = 600\n").unwrap();
    let server = DevServer::start(dir, &["--no-demo"]);
    let made = server.run(&["enqueue", "demo.sleep", "--payload", "{\"ms\": 600000}", "--json"]).json();
    let job = server.job_that_is("running", made["id"].as_str().unwrap())["job"].take();
    server.signal(Signal::SIGINT);
    until("it waits for the job", || server.stderr().contains("stopping: 1 jobs").then_some(()));
    (server, job)
}

/// A terminal that is closed leaves no server behind.
#[test]
fn a_hangup_stops_it_and_its_postgres() {
    let dir = open_dir();
    fs::write(dir.path().join("jobforge.toml"), "[worker]\ngrace_seconds = 600\n").unwrap();
    let mut server = DevServer::start(dir.path(), &["--no-demo"]);
    let made = server.run(&["enqueue", "demo.sleep", "--payload", "{\"ms\": 600000}", "--json"]).json();
    let id = made["id"].as_str().unwrap();
    server.job_that_is("running", id);
    let announced: Value = serde_json::from_str(&fs::read_to_string(server.dev_file()).unwrap()).unwrap();
    server.signal(Signal::SIGHUP);
    until("it waits for the job", || server.stderr().contains("stopping: 1 jobs").then_some(()));
    // Told by the shell and by the terminal: this is no second wish.
    server.signal(Signal::SIGHUP);
    // Its file is gone by now.
    let (url, tenant) =
        (announced["database_url"].as_str().unwrap(), announced["tenant_id"].as_str().unwrap());
    let canceled = server.run(&["jobs", "cancel", id, "--database-url", url, "--tenant", tenant]);
    assert_eq!(canceled.code, 0, "{canceled:?}");
    assert_eq!(server.ended().code(), Some(0), "{}", server.stderr());
    assert!(!postgres_runs(dir.path()));
    assert!(!server.dev_file().exists());
}

/// What many a host sets for its programs names no database to try things out in: it may be no Postgres at all.
#[test]
fn a_plain_database_url_is_not_used_and_that_is_said() {
    let dir = open_dir();
    let mut command = jobforge(dir.path());
    let url = "postgres://app@127.0.0.1:1/shop";
    command.args(["dev", "--no-demo"]).env("DATABASE_URL", url);
    let server = DevServer::spawn_by(dir.path(), ".jobforge", &mut command).ready();
    assert!(server.stderr().contains("DATABASE_URL is set and not used"), "{}", server.stderr());
    assert!(postgres_runs(dir.path()));
    // What is advised finds the server where the variable is set, too.
    let told = server.stderr();
    let advised = told.lines().map(str::trim).find(|line| line.ends_with("jobforge jobs list")).unwrap();
    let programs = assert_cmd::cargo::cargo_bin!("jobforge").parent().unwrap();
    let path = std::env::join_paths(
        [programs.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let listed = Command::new("sh")
        .args(["-c", advised])
        .current_dir(dir.path())
        .env_clear()
        .env("PATH", path.unwrap())
        .env("DATABASE_URL", url)
        .output();
    let listed = Ran::of(listed.unwrap());
    assert_eq!(listed.code, 0, "{advised}: {listed:?}");
    assert!(server.stop(Signal::SIGINT).success());
}

#[test]
fn commands_that_are_advised_find_a_server_in_a_directory_of_its_own() {
    let dir = open_dir();
    let here = dir.path().join("here");
    fs::create_dir(&here).unwrap();
    let args = ["dev", "--no-demo", "--data-dir", "../its own"];
    let server = DevServer::spawn_by(&here, "../its own", jobforge(&here).args(args)).ready();
    let advised = "JOBFORGE_DATA_DIR='../its own' jobforge jobs list";
    assert!(server.stderr().contains(advised), "{}", server.stderr());
    let second = run(&here, &args);
    assert!(second.code == 1 && second.stderr.contains(&format!("use it (`{advised}`)")), "{second:?}");
    let listed =
        jobforge(&here).env("JOBFORGE_DATA_DIR", "../its own").args(["jobs", "list"]).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let lost = run(&here, &["jobs", "list"]);
    assert!(lost.code == 2 && lost.stderr.contains("JOBFORGE_DATA_DIR"), "{lost:?}");
    assert!(server.stop(Signal::SIGINT).success());
}

#[tokio::test]
async fn a_signal_while_it_starts_ends_it_and_its_postgres() {
    let dir = open_dir();
    let mut killed = DevServer::start(dir.path(), &["--no-demo"]);
    let announced: Value = serde_json::from_str(&fs::read_to_string(killed.dev_file()).unwrap()).unwrap();
    killed.signal(Signal::SIGKILL);
    killed.ended();
    // Its Postgres outlives it: there the lock that the next start waits for can be held.
    let holder = connect(announced["database_url"].as_str().unwrap()).await;
    holder.batch_execute("select pg_advisory_lock(hashtextextended('jobforge migrate', 0))").await.unwrap();
    let mut server = DevServer::spawn(dir.path(), &["--no-demo"]);
    let waits = "select exists (select from pg_locks where locktype = 'advisory' and not granted)";
    while !holder.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
        server.assert_runs();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    server.signal(Signal::SIGINT);
    assert_eq!(server.ended().code(), Some(130), "{}", server.stderr());
    assert!(!postgres_runs(dir.path()));
}

#[tokio::test]
async fn a_given_database_is_used_and_no_other_is_started() {
    let cluster = PrivateCluster::start().await;
    let admin = connect(&cluster.super_url("postgres")).await;
    // What a managed Postgres gives: a login that may make roles and owns one database.
    admin.batch_execute("create role boss login createrole password 'pw'").await.unwrap();
    admin.batch_execute("create database app owner boss").await.unwrap();
    let url = cluster.address().url_as("boss", Some("pw"), "app");
    let dir = open_dir();
    let server = DevServer::start(dir.path(), &["--no-demo", "--database-url", &url]);
    let made = server.run(&["enqueue", "demo.flaky", "--payload", "{\"fail_times\": 0}", "--json"]).json();
    server.job_that_is("succeeded", made["id"].as_str().unwrap());
    assert!(!dir.path().join(".jobforge/postgres").exists());
    assert!(server.stop(Signal::SIGINT).success());

    // Another directory does not know the passwords of the logins that are there: they stay as they are.
    let other = open_dir();
    admin.batch_execute("create database second owner boss").await.unwrap();
    let second = cluster.address().url_as("boss", Some("pw"), "second");
    let mut refused = DevServer::spawn(other.path(), &["--no-demo", "--database-url", &second]);
    assert_eq!(refused.ended().code(), Some(1), "{}", refused.stderr());
    assert!(refused.stderr().contains("jobforge_app is in this server already"), "{}", refused.stderr());
    let untouched = connect(&cluster.super_url("second")).await;
    let made = "select count(*) from pg_namespace where nspname = 'jobforge'";
    assert_eq!(untouched.query_one(made, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert!(
        DevServer::start(dir.path(), &["--no-demo", "--database-url", &url]).stop(Signal::SIGINT).success()
    );
    assert_eq!(admin.query_one("select 1", &[]).await.unwrap().get::<_, i32>(0), 1, "it is left running");
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_made() {
    let dir = open_dir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listening = run(dir.path(), &["dev", "--listen", &address]);
    assert_eq!(listening.code, 1, "{listening:?}");
    assert!(listening.stderr.contains("cannot listen there"), "{listening:?}");
    assert!(!dir.path().join(".jobforge").exists());

    let nowhere = dir.path().join("nowhere");
    let without = run(dir.path(), &["dev", "--pg-bin", nowhere.to_str().unwrap()]);
    assert_eq!(without.code, 3, "{without:?}");
    assert!(without.stderr.contains("holds no usable Postgres"), "{without:?}");
}
