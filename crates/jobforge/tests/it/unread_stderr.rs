//! Commands whose stderr nobody reads: what they do does not depend on it.

use std::fs::OpenOptions;
use std::io;
use std::process::{Command, Stdio};

use jobforge_testkit::{APP, OPERATOR, TestDb, WORKER};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Cli, Ran, demo_db, jobforge, until};

/// A pipe whose reader went away, as in `jobforge … 2>&1 | true`.
fn broken_pipe() -> Stdio {
    let (_, writer) = io::pipe().unwrap();
    writer.into()
}

/// A disk that takes no more, under a file that stderr was sent to.
fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

fn ran(command: &mut Command, stderr: Stdio) -> Ran {
    Ran::of(command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap().wait_with_output().unwrap())
}

#[test]
fn a_failure_that_nobody_reads_has_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    for stderr in [broken_pipe, full_disk] {
        let failed = ran(jobforge(dir.path()).args(["jobs", "list"]), stderr());
        assert_eq!(failed.code, 2, "{failed:?}");
        let failed = ran(jobforge(dir.path()).args(["jobs", "list", "--json"]), stderr());
        assert_eq!(failed.code, 2, "{failed:?}");
    }
}

#[tokio::test]
async fn a_worker_whose_log_nobody_reads_does_its_work() {
    let db = demo_db().await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    for stderr in [broken_pipe, full_disk] {
        app.run(&["enqueue", "demo.echo", "--json"]).json();
        app.run(&["enqueue", "demo.fail", "--json"]).json();
        let mut command = worker.command();
        // Every part of the worker has something to say.
        command.args(["work", "--once", "--json"]).env("JOBFORGE_LOG__FILTER", "trace");
        let ran = ran(&mut command, stderr()).json();
        assert_eq!((&ran["completed"], &ran["failed"]), (&1.into(), &1.into()), "{ran}");
    }
}

#[tokio::test]
async fn a_scheduler_whose_log_nobody_reads_leads_and_resigns() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let mut child = cli.command().arg("schedule").stderr(broken_pipe()).spawn().unwrap();
    let leads = "select expires_at > clock_timestamp() from jobforge.leader";
    let admin = db.connect_super().await;
    loop {
        assert!(child.try_wait().unwrap().is_none(), "the scheduler ended");
        if admin.query_one(leads, &[]).await.unwrap().get(0) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let ended = until("the scheduler ends", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}
