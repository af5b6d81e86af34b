//! `jobforge schedule` as a process among others.

use std::process::Stdio;
use std::time::{Duration, Instant};

use jobforge_testkit::{OPERATOR, TestDb};
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
