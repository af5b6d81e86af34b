//! `jobforge serve` without its database: away at the start, later, or refusing.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, Stdio};
use std::thread::JoinHandle;

use jobforge_testkit::{APP, FaultProxy, Mode, OPERATOR, PASSWORD, TENANT_A, TestDb, WORKER};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::serve::{Serve, exchange, request, serve_command};
use crate::{Cli, Ran, demo_db, until};

const JOB: &str = r#"{"type": "demo.echo", "payload": {"n": 1}}"#;
const READY: &str = "GET /api/v1/health/ready";

/// A database that is away whenever the proxy says so.
async fn behind(db: &TestDb) -> FaultProxy {
    FaultProxy::start(db.cluster_port()).await
}

fn serve(db: &TestDb, proxy: &FaultProxy) -> (Serve, JoinHandle<String>) {
    let mut server =
        Serve::start_at(|login| proxy.through(&db.url_as(login, Some(PASSWORD))), Stdio::piped());
    let said = gather(server.child.stderr.take().unwrap());
    (server, said)
}

/// All that it says until it ends.
fn gather(mut stderr: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        said
    })
}

/// The messages of this level.
fn lines(said: &str, level: &str) -> Vec<String> {
    let parsed = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let wanted =
        parsed.filter(|line| line["level"].as_str().is_some_and(|is| is.eq_ignore_ascii_case(level)));
    wanted.map(|line| line.to_string()).collect()
}

#[track_caller]
fn is_unavailable(server: &Serve, key: &str, line: &str, body: Option<&str>) {
    let (status, head, told) = exchange(&server.url, key, line, body);
    assert_eq!((status, told["code"].as_str()), (503, Some("JF106")), "{line}: {told}");
    assert!(head.contains("\r\nretry-after: "), "{line}: {head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_without_its_database_and_serves_when_it_comes() {
    let db = demo_db().await;
    let key = Cli::new(&db, OPERATOR).run(&["keys", "create", "producer"]).stdout;
    let proxy = behind(&db).await;
    proxy.set_mode(Mode::Refuse);
    let (mut server, said) = serve(&db, &proxy);
    let pid = server.child.id();
    for _ in 0..20 {
        assert_eq!(request(&server.url, "", "GET /api/v1/health/live", None).0, 200);
        is_unavailable(&server, "", READY, None);
        is_unavailable(&server, key.trim(), "POST /api/v1/jobs", Some(JOB));
        is_unavailable(&server, key.trim(), "GET /api/v1/jobs", None);
        is_unavailable(&server, "", "POST /api/v1/bootstrap", Some(r#"{"token": "x"}"#));
    }
    assert_eq!(request(&server.url, "", "GET /openapi.json", None).0, 200, "what needs no database is there");
    proxy.set_mode(Mode::Pass);
    until("it is ready", || (request(&server.url, "", READY, None).0 == 200).then_some(()));
    let (status, job) = request(&server.url, key.trim(), "POST /api/v1/jobs", Some(JOB));
    assert_eq!(status, 201, "{job}");
    assert_eq!((server.child.id(), server.child.try_wait().unwrap()), (pid, None));
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    let said = said.join().unwrap();
    let warnings = lines(&said, "warn");
    assert_eq!(warnings.len(), 1, "{said}");
    assert!(warnings[0].contains("no connection to 127.0.0.1"), "where and why: {warnings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_under_load_is_told_once_and_outlived() {
    let db = demo_db().await;
    let key = Cli::new(&db, OPERATOR).run(&["keys", "create", "tenant_admin"]).stdout;
    let proxy = behind(&db).await;
    let (mut server, said) = serve(&db, &proxy);
    let enqueue = || request(&server.url, key.trim(), "POST /api/v1/jobs", Some(JOB)).0;
    until("it serves", || (enqueue() == 201).then_some(()));
    proxy.set_mode(Mode::Refuse);
    for _ in 0..30 {
        is_unavailable(&server, key.trim(), "POST /api/v1/jobs", Some(JOB));
        is_unavailable(&server, key.trim(), "GET /api/v1/jobs", None);
        is_unavailable(&server, "", READY, None);
    }
    proxy.set_mode(Mode::Pass);
    until("it serves again", || (enqueue() == 201).then_some(()));
    assert_eq!(request(&server.url, key.trim(), "GET /api/v1/jobs", None).0, 200);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    let said = said.join().unwrap();
    // One of the requests' way, one of the way on which revoked keys are heard of.
    assert!((1..=2).contains(&lines(&said, "warn").len()), "{said}");
    assert!(lines(&said, "error").is_empty(), "{said}");
    assert!(said.contains("the database answers again"), "{said}");
}

#[tokio::test]
async fn what_postgres_refuses_ends_the_start_with_the_reason() {
    let db = demo_db().await;
    let ran = |url: &dyn Fn(&str) -> String| Ran::of(serve_command(url).output().unwrap());
    let password = |login: &str| db.url_as(login, Some(if login == OPERATOR { "wrong" } else { PASSWORD }));
    let wrong = ran(&password);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.stderr.contains("server.operator_url") && wrong.stderr.contains("password"), "{wrong:?}");

    let blank = TestDb::blank().await;
    let unmigrated = ran(&|login| blank.url_as(login, Some(PASSWORD)));
    assert_eq!(unmigrated.code, 1, "{unmigrated:?}");
    // The tests' password is the executable's name, and is not printed.
    assert!(unmigrated.stderr.contains(" migrate`"), "{unmigrated:?}");

    let admin = db.connect_super().await;
    let older = "delete from jobforge.schema_migrations
        where version = (select max(version) from jobforge.schema_migrations) returning name";
    let name: String = admin.query_one(older, &[]).await.unwrap().get(0);
    let old = ran(&|login| db.url_as(login, Some(PASSWORD)));
    assert_eq!(old.code, 1, "{old:?}");
    assert!(old.stderr.contains(&name) && old.stderr.contains(" migrate`"), "{old:?}");

    let nonsense = ran(&|login| if login == APP { "nonsense://".to_owned() } else { String::new() });
    assert_ne!(nonsense.code, 0, "{nonsense:?}");
    assert!(nonsense.stdout.is_empty() && nonsense.stderr.contains("URL"), "{nonsense:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_and_refuses_ends_the_wait() {
    let db = demo_db().await;
    let proxy = behind(&db).await;
    proxy.set_mode(Mode::Refuse);
    let mut server = Serve::start_at(|login| proxy.through(&db.url_as(login, Some("wrong"))), Stdio::piped());
    let said = gather(server.child.stderr.take().unwrap());
    is_unavailable(&server, "", READY, None);
    proxy.set_mode(Mode::Pass);
    assert_eq!(server.ended().code(), Some(1));
    let said = said.join().unwrap();
    assert!(said.contains("database_url") && said.contains("password authentication failed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_ends_in_order() {
    let db = TestDb::new().await;
    let proxy = behind(&db).await;
    proxy.set_mode(Mode::Refuse);
    let (mut server, said) = serve(&db, &proxy);
    is_unavailable(&server, "", READY, None);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    said.join().unwrap();
}

/// The first key can be made, too, once there is a database to make it in.
#[tokio::test(flavor = "multi_thread")]
async fn the_token_for_the_first_key_comes_with_the_database() {
    let db = demo_db().await;
    let proxy = behind(&db).await;
    proxy.set_mode(Mode::Refuse);
    let (mut server, said) = serve(&db, &proxy);
    proxy.set_mode(Mode::Pass);
    until("it is ready", || (request(&server.url, "", READY, None).0 == 200).then_some(()));
    let key = Cli::new(&db, OPERATOR).run(&["keys", "create", "producer", "--tenant", &TENANT_A.to_string()]);
    assert_eq!(key.code, 0, "{key:?}");
    server.signal(Signal::SIGTERM);
    server.ended();
    assert!(said.join().unwrap().contains("/api/v1/bootstrap"), "the console has the token");
}

/// A login that JobForge does not know may connect, and is refused each call.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_not_registered_ends_the_start_with_the_statement_that_registers_it() {
    let db = demo_db().await;
    let admin = db.connect_super().await;
    for (login, setting) in
        [(APP, "database_url"), (OPERATOR, "server.operator_url"), (WORKER, "server.worker_url")]
    {
        let forget = format!("delete from jobforge.logins where role_name = '{login}'");
        admin.batch_execute(&forget).await.unwrap();
        let mut command = serve_command(|login| db.url_as(login, Some(PASSWORD)));
        let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        for line in BufReader::new(server.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            if line.contains("the server is ready") {
                server.kill().unwrap();
                server.wait().unwrap();
                panic!("it serves without {setting}");
            }
            said.push_str(&line);
        }
        assert_eq!(server.wait().unwrap().code(), Some(1), "{said}");
        // The tests' password is the executable's name, and is not printed.
        for part in [setting, "is not registered", &format!(".bind_login('{login}')")] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let bind = format!("select jobforge.bind_login('{login}')");
        admin.batch_execute(&bind).await.unwrap();
    }
}
