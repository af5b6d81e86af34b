//! `jobforge serve`: it tells where it listens, answers, and ends in order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use jobforge_testkit::{APP, OPERATOR, PASSWORD, TestDb, WORKER};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{Cli, demo_db, jobforge, until};

/// A running `jobforge serve`.
pub(crate) struct Serve {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Serve {
    /// Starts one on a free port and reads where it listens.
    pub(crate) fn start(db: &TestDb) -> Serve {
        Serve::start_with(db, Stdio::null(), &[])
    }

    /// The same with more settings, and what it says beside its answer goes there.
    pub(crate) fn start_with(db: &TestDb, stderr: Stdio, settings: &[(&str, &str)]) -> Serve {
        let mut command = serve_command(|login| db.url_as(login, Some(PASSWORD)));
        command.envs(settings.iter().copied()).stderr(stderr);
        Serve::run(command)
    }

    /// The same, on the database at these URLs of the logins.
    pub(crate) fn start_at(url: impl Fn(&str) -> String, stderr: Stdio) -> Serve {
        let mut command = serve_command(url);
        command.stderr(stderr);
        Serve::run(command)
    }

    fn run(mut command: Command) -> Serve {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut text = String::new();
        while serde_json::from_str::<Value>(&text).is_err() {
            text.push_str(&lines.next().expect("it ended without a word").unwrap());
        }
        let told: Value = serde_json::from_str(&text).unwrap();
        Serve { child, url: told["url"].as_str().unwrap().to_owned() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("the server ends", || self.child.try_wait().unwrap())
    }
}

/// `jobforge serve` on a free port, with these URLs of the logins.
pub(crate) fn serve_command(url: impl Fn(&str) -> String) -> Command {
    // A directory without settings.
    let mut command = jobforge(Path::new("/"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--json"])
        .env("JOBFORGE_DATABASE_URL", url(APP))
        .env("JOBFORGE_SERVER__OPERATOR_URL", url(OPERATOR))
        .env("JOBFORGE_SERVER__WORKER_URL", url(WORKER));
    command
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of one request: method and path, then a body if there is one.
pub(crate) fn request(url: &str, key: &str, line: &str, body: Option<&str>) -> (u16, Value) {
    let (status, _, body) = exchange(url, key, line, body);
    (status, body)
}

/// Status, head and body of one request.
pub(crate) fn exchange(url: &str, key: &str, line: &str, body: Option<&str>) -> (u16, String, Value) {
    let host = url.strip_prefix("http://").unwrap();
    let (method, path) = line.split_once(' ').unwrap();
    let body = body.unwrap_or_default();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_server_answers_by_its_keys_and_ends_in_order() {
    let db = demo_db().await;
    let key = Cli::new(&db, OPERATOR).run(&["keys", "create", "producer"]).stdout;
    let mut server = Serve::start(&db);
    assert_eq!(request(&server.url, "", "GET /api/v1/health/ready", None).0, 200);
    let body = r#"{"type": "demo.echo", "payload": {"n": 1}}"#;
    let (status, job) = request(&server.url, key.trim(), "POST /api/v1/jobs", Some(body));
    assert_eq!((status, job["status"].as_str()), (201, Some("queued")), "{job}");
    let shown = Cli::new(&db, APP).run(&["jobs", "show", job["id"].as_str().unwrap(), "--json"]).json();
    assert_eq!(shown["job"]["payload"]["n"], 1);
    let (status, refusal) = request(&server.url, "jf_no_key", "POST /api/v1/jobs", Some(body));
    assert_eq!((status, refusal["code"].as_str()), (401, Some("JF101")), "{refusal}");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
}

#[tokio::test]
async fn without_a_key_the_console_has_a_token_for_the_first_one() {
    let db = demo_db().await;
    let mut server = Serve::start_with(&db, Stdio::piped(), &[]);
    let said = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let line = said.map(Result::unwrap).find(|line| line.contains("/api/v1/bootstrap")).unwrap();
    let body = line.split_once("-d '").unwrap().1.trim_end_matches('\'');
    let (status, first) = request(&server.url, "", "POST /api/v1/bootstrap", Some(body));
    assert_eq!((status, first["role"].as_str()), (201, Some("super_admin")), "{first}");
    let key = first["key"].as_str().unwrap();
    assert_eq!(request(&server.url, key, "GET /api/v1/admin/keys", None).0, 200);
    assert_eq!(request(&server.url, "", "POST /api/v1/bootstrap", Some(body)).0, 404, "once");
}

#[tokio::test]
async fn no_more_requests_wait_for_jobs_than_the_setting_lets() {
    let db = demo_db().await;
    let key = Cli::new(&db, OPERATOR).run(&["keys", "create", "producer"]).stdout;
    let server = Serve::start_with(&db, Stdio::null(), &[("JOBFORGE_SERVER__WAITERS", "1")]);
    let job = r#"{"type": "demo.echo"}"#;
    let (_, job) = request(&server.url, key.trim(), "POST /api/v1/jobs", Some(job));
    let id = job["id"].as_str().unwrap();
    let path = format!("GET /api/v1/jobs/{id}/wait?timeout_seconds=60");
    // Of two that wait for a job that nobody runs, the one that finds the only place taken is answered at once.
    let (sender, answers) = std::sync::mpsc::channel();
    for _ in 0..2 {
        let (url, key, path, sender) = (server.url.clone(), key.clone(), path.clone(), sender.clone());
        std::thread::spawn(move || sender.send(request(&url, key.trim(), &path, None)));
    }
    let (status, refusal) = answers.recv().unwrap();
    assert_eq!(status, 503, "{refusal}");
    Cli::new(&db, APP).run(&["jobs", "cancel", id]);
    let (status, waited) = answers.recv().unwrap();
    assert_eq!((status, waited["status"].as_str()), (200, Some("canceled")), "{waited}");
    assert_eq!(
        (refusal["code"].as_str(), refusal["reason"].as_str()),
        (Some("JF105"), Some("too_many_waiters"))
    );
    assert!(refusal["detail"].as_str().unwrap().contains("server.waiters"), "{refusal}");
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_a_request_that_is_under_way() {
    let db = demo_db().await;
    let key = Cli::new(&db, OPERATOR).run(&["keys", "create", "producer"]).stdout;
    let mut server = Serve::start(&db);
    let host = server.url.strip_prefix("http://").unwrap().to_owned();
    // A request without its body: the server says when it waits for it, and does so as long as it may.
    let mut slow = TcpStream::connect(&host).unwrap();
    write!(
        slow,
        "POST /api/v1/jobs HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: 10\r\nexpect: 100-continue\r\n\r\n",
        key.trim()
    )
    .unwrap();
    let mut line = String::new();
    BufReader::new(slow.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 100"), "{line}");
    server.signal(Signal::SIGTERM);
    until("it takes no more requests", || TcpStream::connect(&host).is_err().then_some(()));
    assert!(server.child.try_wait().unwrap().is_none(), "it waits");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(130));
}

#[tokio::test]
async fn what_cannot_work_is_refused_at_the_start() {
    let db = demo_db().await;
    let cli = Cli::new(&db, APP);
    let without = cli.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(without.code, 2, "{without:?}");
    assert!(without.stderr.contains("set server.operator_url"), "{without:?}");

    let with_operator = |url: &str, listen: &str| {
        let mut command = cli.command();
        command.args(["serve", "--listen", listen]).env("JOBFORGE_SERVER__OPERATOR_URL", url);
        crate::Ran::of(command.output().unwrap())
    };
    let superuser = with_operator(&db.super_url(), "127.0.0.1:0");
    assert_eq!(superuser.code, 1, "{superuser:?}");
    assert!(superuser.stderr.contains("server.operator_url"), "{superuser:?}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let busy = with_operator(&db.url_as(OPERATOR, Some(PASSWORD)), &address);
    assert_eq!(busy.code, 1, "{busy:?}");
    assert!(busy.stderr.contains(&format!("cannot listen on {address}")), "{busy:?}");
}

#[test]
fn the_description_is_printed_without_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let printed = crate::run(dir.path(), &["openapi"]).json();
    assert!(printed["paths"]["/api/v1/jobs"]["post"].is_object());
}
