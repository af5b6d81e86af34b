//! What remains after a killed test process: nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobforge_testkit::{PrivateCluster, TestDb, run_dir};

/// A test process with a temporary directory, and so a run, of its own.
fn spawn_in(tmp: &Path, test: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env("TMPDIR", tmp)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Half a minute is far more than any step takes.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn clusters(tmp: &Path) -> Vec<PathBuf> {
    let Some(run) = fs::read_dir(tmp).unwrap().flatten().next() else { return Vec::new() };
    let Ok(entries) = fs::read_dir(run.path().join("clusters")) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

fn server_pids(tmp: &Path) -> Vec<String> {
    let pid_file = |cluster: PathBuf| fs::read_to_string(cluster.join("pgdata/postmaster.pid")).ok();
    let texts = clusters(tmp).into_iter().filter_map(pid_file);
    texts
        .filter(|text| text.contains("ready"))
        .filter_map(|text| text.lines().next().map(str::to_owned))
        .collect()
}

#[tokio::test]
#[ignore = "is run by nothing_remains_of_a_killed_process"]
async fn sleeps_with_servers() {
    let _db = TestDb::blank().await;
    let _private = PrivateCluster::start().await;
    assert!(run_dir().exists());
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[test]
fn nothing_remains_of_a_killed_process() {
    let tmp = tempfile::tempdir().unwrap();
    fs::set_permissions(tmp.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut process = spawn_in(tmp.path(), "watchdog::sleeps_with_servers");
    wait_until("the start of both servers", || server_pids(tmp.path()).len() == 2);
    let pids = server_pids(tmp.path());
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the removal of all data", || clusters(tmp.path()).is_empty());
    for pid in pids {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!command.contains("postgres"), "{command}");
    }
    // The run directory can be used again at once.
    let mut process = spawn_in(tmp.path(), "watchdog::sleeps_with_servers");
    wait_until("the second start", || server_pids(tmp.path()).len() == 2);
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the second removal", || clusters(tmp.path()).is_empty());
}
