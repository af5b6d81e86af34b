//! `jobforge schedule` as a process among others.

use std::process::Stdio;
use std::time::{Duration, Instant};

use jobforge_testkit::{FaultProxy, Mode, OPERATOR, PASSWORD, TestDb};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Cli, PATIENCE, Ran};

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
