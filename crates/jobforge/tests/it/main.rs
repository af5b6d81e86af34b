//! The executable from outside: what a person or a script sees of it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod artifacts;
mod broker;
mod commands;
mod config;
mod connector_configs;
mod connectors;
mod dead;
mod definitions;
mod demo;
mod dev;
mod dev_keys;
mod dev_server;
mod doctor;
mod doctor_checks;
mod guides;
mod jobs;
mod keys;
mod logs;
mod migrate;
mod operate;
mod schedule;
mod serve;
mod serve_outage;
mod tokens;
mod unread_stderr;
mod work;
mod work_outage;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use jobforge_core::Definition;
use jobforge_core::rpc::upsert_definition;
use jobforge_testkit::{PASSWORD, TENANT_A, TestDb};
use serde_json::Value;

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The executable, with nothing of this process's environment that it would read.
fn jobforge(dir: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("jobforge"));
    command.current_dir(dir).env_remove("DATABASE_URL");
    for (name, _) in std::env::vars_os() {
        // Which Postgres the tests run on is not a setting under test.
        if name.to_string_lossy().starts_with("JOBFORGE_") && name != "JOBFORGE_PG_BIN" {
            command.env_remove(name);
        }
    }
    command
}

/// What a run printed and how it ended.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(output: Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The answer of a run that must have succeeded.
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        self.parsed()
    }

    #[track_caller]
    fn parsed(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A refusal with this code, told in words.
    #[track_caller]
    fn refused(&self, code: &str) {
        assert_eq!(self.code, 1, "{self:?}");
        assert!(self.stderr.contains(&format!("see docs/errors/{code}.md")), "{self:?}");
        assert_eq!(self.stdout, "");
    }
}

fn run(dir: &Path, args: &[&str]) -> Ran {
    Ran::of(jobforge(dir).args(args).output().unwrap())
}

/// Commands on a test's database as one of its logins, for tenant A.
struct Cli {
    url: String,
    dir: tempfile::TempDir,
}

impl Cli {
    fn new(db: &TestDb, login: &str) -> Cli {
        Cli { url: db.url_as(login, Some(PASSWORD)), dir: tempfile::tempdir().unwrap() }
    }

    fn command(&self) -> Command {
        let mut command = jobforge(self.dir.path());
        command.env("JOBFORGE_DATABASE_URL", &self.url).env("JOBFORGE_TENANT", TENANT_A.to_string());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command().args(args).output().unwrap())
    }
}

/// A database whose operators know the demo types.
async fn demo_db() -> TestDb {
    let db = TestDb::new().await;
    let operator = db.as_operator().await;
    for key in ["demo.echo", "demo.sleep", "demo.flaky", "demo.fail", "demo.progress"] {
        upsert_definition(&operator, &Definition::new(key)).await.unwrap();
    }
    db
}

/// The value that comes to pass; fails the test if it does not in a minute.
#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < deadline, "did not come to pass: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
