//! `jobforge work` without its database: it waits for one that is away, and takes a refusal for what it is.

use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Stdio};

use jobforge_core::rpc::{upsert_definition, upsert_tenant};
use jobforge_core::{Definition, Tenant, migrate};
use jobforge_testkit::{
    APP, FaultProxy, Mode, OPERATOR, PASSWORD, PrivateCluster, TENANT_A, TestDb, WORKER, connect,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{Cli, Ran, demo_db, until};

const AWAY: &str = "the database does not answer: the worker waits for it";
const READY: &str = "the worker is ready";

/// A worker that was started, and what it says.
struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Started {
    fn of(cli: &Cli) -> Started {
        let mut command = cli.command();
        command.args(["work", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Started { child, lines }
    }

    /// The first line that says this; those before it are passed by. Fails the test if the process ends without it.
    #[track_caller]
    fn says(&mut self, message: &str) -> Value {
        let mut before = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            match serde_json::from_str::<Value>(&line) {
                Ok(line) if line["message"] == message => return line,
                _ => before.push(line),
            }
        }
        panic!("it never said {message:?}:\n{}", before.join("\n"));
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// How it ended, and what else it said.
    fn ended(self) -> (Ran, String) {
        let rest: Vec<String> = self.lines.map(Result::unwrap).collect();
        (Ran::of(self.child.wait_with_output().unwrap()), rest.join("\n"))
    }
}

/// The schema, a tenant, a type and the logins, on a Postgres of the test's own.
async fn install(cluster: &PrivateCluster) {
    let url = cluster.super_url("postgres");
    migrate::up(&url).await.unwrap();
    let admin = connect(&url).await;
    for (login, role) in [(APP, "jf_tenant"), (WORKER, "jf_worker"), (OPERATOR, "jf_operator")] {
        let sql = format!(
            "create role {login} login password '{PASSWORD}' in role {role};
             insert into jobforge.logins (role_name) values ('{login}')"
        );
        admin.batch_execute(&sql).await.unwrap();
    }
    let operator = connect(&at(cluster, OPERATOR)).await;
    upsert_tenant(&operator, &Tenant::new(TENANT_A)).await.unwrap();
    upsert_definition(&operator, &Definition::new("demo.echo")).await.unwrap();
}

fn at(cluster: &PrivateCluster, login: &str) -> String {
    cluster.address().url_as(login, Some(PASSWORD), "postgres")
}

fn cli(url: String) -> Cli {
    Cli { url, dir: tempfile::tempdir().unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_for_a_postgres_that_starts_after_it() {
    let mut cluster = PrivateCluster::start().await;
    install(&cluster).await;
    let made = cli(at(&cluster, APP)).run(&["enqueue", "demo.echo", "--json"]).json();
    cluster.stop().await;

    // Whoever asks for one round is told that there was none.
    let once = cli(at(&cluster, WORKER)).run(&["work", "--once", "--json"]);
    assert_eq!((once.code, once.stdout.as_str()), (1, ""), "{once:?}");
    assert!(once.stderr.contains("no connection to 127.0.0.1"), "{once:?}");

    let mut worker = Started::of(&cli(at(&cluster, WORKER)));
    let told = worker.says(AWAY);
    assert_eq!(told["level"], "WARN", "{told}");
    assert!(told.to_string().contains("no connection to 127.0.0.1"), "where and why: {told}");
    assert_eq!(worker.child.try_wait().unwrap(), None);

    cluster.restart().await;
    let told = worker.says(READY);
    assert!(told["worker_id"].is_string(), "{told}");
    let app = cli(at(&cluster, APP));
    let id = made["id"].as_str().unwrap();
    until("the job is done", || {
        let job = app.run(&["jobs", "show", id, "--json"]).json();
        (job["job"]["status"] == "succeeded").then_some(())
    });
    worker.signal(Signal::SIGTERM);
    let (ended, rest) = worker.ended();
    assert_eq!(ended.json()["completed"], 1, "{ended:?}\n{rest}");
}

#[test]
fn a_worker_that_waits_says_so_once_in_a_while_and_ends_in_order() {
    // Where something listens that is no Postgres, or none yet.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://worker@{}/postgres", nobody.local_addr().unwrap());
    let mut worker = Started::of(&cli(url));
    nobody.set_nonblocking(true).unwrap();
    for _ in 0..5 {
        drop(until("it looks again", || nobody.accept().ok()));
    }
    worker.says(AWAY);
    worker.signal(Signal::SIGTERM);
    let (ended, rest) = worker.ended();
    assert_eq!(ended.json()["claimed"], 0, "{ended:?}");
    assert!(!rest.contains(AWAY), "{rest}");
}

#[test]
fn a_round_that_is_stopped_before_it_could_look_is_not_taken_for_one() {
    // Whoever connects waits for an answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://worker@{}/postgres", silent.local_addr().unwrap());
    for round in [&["tick"][..], &["work", "--once"]] {
        let cli = cli(url.clone());
        let child = cli.command().args(round).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _held = silent.accept().unwrap();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
        let ended = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ended.code, 130, "{round:?}: {ended:?}");
        assert!(!ended.stdout.contains("nothing was due"), "{ended:?}");
    }
}

/// What Postgres itself refuses does not get better by waiting.
#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_refuses_ends_the_worker_with_the_reason() {
    let db = demo_db().await;
    let wrong = cli(db.url_as(WORKER, Some("wrong"))).run(&["work"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.stderr.contains("password authentication failed"), "{wrong:?}");
    assert!(!wrong.stderr.contains(AWAY), "{wrong:?}");

    let nowhere = db.url_as(WORKER, Some(PASSWORD)).replace(db.name(), "nowhere");
    let nowhere = cli(nowhere).run(&["work"]);
    assert_eq!(nowhere.code, 1, "{nowhere:?}");
    assert!(nowhere.stderr.contains("does not exist"), "{nowhere:?}");

    // The tests' password is the executable's name, and is not printed.
    let hint = "the schema is missing or old: ";
    let blank = TestDb::blank().await;
    let missing = cli(blank.url_as(WORKER, Some(PASSWORD))).run(&["work"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stderr.contains(hint), "{missing:?}");

    let older = "alter function jobforge.definition_rules(text[]) rename to rules_of_before";
    db.connect_super().await.batch_execute(older).await.unwrap();
    let old = Cli::new(&db, WORKER).run(&["work"]);
    assert_eq!(old.code, 1, "{old:?}");
    assert!(old.stderr.contains(hint) && !old.stderr.contains(AWAY), "{old:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_and_refuses_ends_the_wait() {
    let db = TestDb::new().await;
    let proxy = FaultProxy::start(db.cluster_port()).await;
    proxy.set_mode(Mode::Refuse);
    let mut worker = Started::of(&cli(proxy.through(&db.url_as(WORKER, Some("wrong")))));
    worker.says(AWAY);
    proxy.set_mode(Mode::Pass);
    let (ended, rest) = worker.ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(rest.contains("password authentication failed"), "{rest}");
}
