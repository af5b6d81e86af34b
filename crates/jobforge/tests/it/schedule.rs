//! `jobforge schedule` as a process among others.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use jobforge_testkit::{FaultProxy, Mode, OPERATOR, PASSWORD, TestDb, WORKER};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{Cli, PATIENCE, Ran};

/// A scheduler that was started, and what it says. It ends with the test.
struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Started {
    fn at(url: String) -> Started {
        let cli = Cli { url, dir: tempfile::tempdir().unwrap() };
        let mut command = cli.command();
        command.args(["schedule", "--json"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Started { child, lines }
    }

    /// The next line that says one of these. Fails the test if the process ends without it.
    #[track_caller]
    fn says(&mut self, messages: &[&str]) -> Value {
        let lines = self.lines.by_ref().map(Result::unwrap);
        let mut told = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let said = told.find(|line| messages.iter().any(|message| line["message"] == *message));
        said.unwrap_or_else(|| panic!("it said none of {messages:?}"))
    }

    /// All that it says until it ends with a failure. Fails the test if it goes on instead.
    #[track_caller]
    fn refused(mut self) -> String {
        let mut said = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            assert!(!line.contains(READY) && !line.contains(NOT_ASKED), "it goes on: {line}");
            said.push(line);
        }
        assert_eq!(self.child.wait().unwrap().code(), Some(1), "{said:?}");
        said.join("\n")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that has ended is no longer there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const READY: &str = "the scheduler is ready";
const NOT_ASKED: &str = "the leadership could not be asked for";

#[tokio::test]
async fn a_scheduler_leads_and_resigns_when_it_is_told_to_stop() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let child = cli.command().arg("schedule").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let admin = db.connect_super().await;
    let deadline = Instant::now() + PATIENCE;
    let leads = "select expires_at > clock_timestamp() from jobforge.leader";
    while !admin.query_one(leads, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(Instant::now() < deadline, "nobody leads");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let ended = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    let resigned = "select expires_at = '-infinity' from jobforge.leader";
    assert!(admin.query_one(resigned, &[]).await.unwrap().get::<_, bool>(0), "it did not resign");
}

/// As under `nohup`: whoever starts it without a terminal to lose wants it to stay.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let bare = cli.command();
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" schedule"])
        .arg(bare.get_program())
        .current_dir(cli.dir.path());
    for (name, value) in bare.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let set = |which: &str| {
        let text = std::fs::read_to_string(&status).unwrap();
        let bits = text.lines().find_map(|line| line.strip_prefix(which)).unwrap().trim().to_owned();
        u64::from_str_radix(&bits, 16).unwrap()
    };
    let bit = |signal: Signal| 1_u64 << (signal as i32 - 1);
    let ready = || (set("SigCgt:") & bit(Signal::SIGTERM) != 0).then_some(());
    crate::until("it listens for signals", ready);
    assert_ne!(set("SigIgn:") & bit(Signal::SIGHUP), 0, "it is not ignored any more");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(Ran::of(child.wait_with_output().unwrap()).code, 0);
}

/// A server that answers nothing is waited for until the connection's patience ends; a signal is heard before.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_while_it_starts_ends_it() {
    let db = TestDb::new().await;
    let proxy = FaultProxy::start(db.cluster_port()).await;
    proxy.set_mode(Mode::Silence);
    let url = proxy.through(&db.url_as(OPERATOR, Some(PASSWORD)));
    let cli = Cli { url, dir: tempfile::tempdir().unwrap() };
    let mut command = cli.command();
    let child = command.arg("schedule").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    crate::until("it connects", || (!proxy.connections().is_empty()).then_some(()));
    kill(pid, Signal::SIGTERM).unwrap();
    let ended = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!ended.stderr.contains("the scheduler is ready"), "it was not heard before: {ended:?}");
}

/// What Postgres itself refuses does not get better by waiting.
#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_refuses_ends_the_scheduler_with_the_reason() {
    // It makes the logins.
    let db = TestDb::new().await;
    let blank = TestDb::blank().await;
    let said = Started::at(blank.url_as(OPERATOR, Some(PASSWORD))).refused();
    assert!(said.contains("the schema is missing or old: "), "{said}");

    let said = Started::at(db.url_as(WORKER, Some(PASSWORD))).refused();
    assert!(said.contains("permission denied") && said.contains("operators jf_operator"), "{said}");
}

/// As where the schema comes after the database, and the database after the scheduler.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_and_has_no_schema_ends_the_scheduler_with_the_reason() {
    let _logins = TestDb::new().await;
    let blank = TestDb::blank().await;
    let proxy = FaultProxy::start(blank.cluster_port()).await;
    proxy.set_mode(Mode::Refuse);
    let mut scheduler = Started::at(proxy.through(&blank.url_as(OPERATOR, Some(PASSWORD))));
    scheduler.says(&["the scheduler has no connection"]);
    proxy.set_mode(Mode::Pass);
    let mut said = Vec::new();
    for line in scheduler.lines.by_ref() {
        let line = line.unwrap();
        assert!(!line.contains(NOT_ASKED), "it goes on: {line}");
        said.push(line);
    }
    assert_eq!(scheduler.child.wait().unwrap().code(), Some(1), "{said:?}");
    assert!(said.join("\n").contains("the schema is missing or old: "), "{said:?}");
}

/// A migration may take from a scheduler that runs what it needs, and give it back.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_running_scheduler_is_refused_is_told_with_its_cause_ever_more_rarely_and_waited_out() {
    let db = TestDb::new().await;
    let admin = db.connect_super().await;
    let mut scheduler = Started::at(db.url_as(OPERATOR, Some(PASSWORD)));
    scheduler.says(&["leads"]);
    admin.batch_execute("alter function jobforge.lead(text, integer) rename to lead_away").await.unwrap();
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let told = scheduler.says(&[NOT_ASKED]);
        assert!(told.to_string().contains("lead(") && told.to_string().contains("does not exist"), "{told}");
        pauses.push(told["fields"]["retry_in_ms"].as_u64().unwrap());
    }
    assert!(pauses.is_sorted() && pauses[3] > pauses[0], "{pauses:?}");
    admin.batch_execute("alter function jobforge.lead_away(text, integer) rename to lead").await.unwrap();
    scheduler.says(&["leads"]);
}
