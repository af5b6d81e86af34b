//! The end of a command's whole tree: whatever ends it, nothing that it started lives on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobforge_core::{Definition, rpc};
use jobforge_testkit::{FaultPoints, TENANT_A};
use jobforge_worker::Faults;
use serde_json::json;

use super::{Story, WAYS, alive, cookie, define, eventually, rooms, script};

/// Ignores requests to end, and has children that left its session, and one without any parent.
const STUBBORN: &str = r#"trap "" TERM
    setsid sh -c "sleep 601" &
    (setsid sleep 602 &)
    sleep 603 &
    echo begun
    sleep 604"#;

fn stubborn(way: &str, cookie: &str, more: &str) -> String {
    format!("namespaces = \"{way}\"\ndirectory_root = \"@DIR\"\n")
        + &script("job.stubborn", STUBBORN, &format!("env = {{ set = {{ COOKIE = \"{cookie}\" }} }}\n{more}"))
}

/// The shell, its four sleepers, one of them with a shell of its own or in its place.
async fn whole_tree(cookie: &str) {
    eventually("the tree is there", async || (alive(cookie).len() >= 5).then_some(())).await;
}

#[tokio::test]
async fn a_canceled_command_dies_with_its_whole_tree() {
    for way in WAYS {
        let cookie = cookie();
        let story = Story::begin(&stubborn(way, &cookie, "grace_seconds = 1")).await;
        let id = story.enqueue("job.stubborn", json!({})).await;
        whole_tree(&cookie).await;
        rpc::cancel_job(&story.app, TENANT_A, id, None).await.unwrap();
        let (job, attempt) = story.over(id).await;
        assert_eq!((job.status.as_str(), attempt.status.as_str()), ("canceled", "canceled"), "{way}");
        assert_eq!((attempt.signal, alive(&cookie)), (Some(9), vec![]), "{way}: nothing is left at its end");
        assert_eq!(attempt.stdout_tail.as_deref(), Some("begun\n"), "{way}");
    }
}

#[tokio::test]
async fn a_command_past_its_own_time_is_told_as_a_timeout() {
    for way in WAYS {
        let cookie = cookie();
        let story = Story::begin(&stubborn(way, &cookie, "timeout_seconds = 2\ngrace_seconds = 0")).await;
        let (job, attempt) = story.run("job.stubborn", json!({})).await;
        assert_eq!((job.status.as_str(), attempt.status.as_str()), ("dead", "timeout"), "{way}");
        let error = attempt.error.unwrap();
        assert_eq!(error, "command job.stubborn: timed out after 2 s, killed by signal 9", "{way}");
        assert_eq!(alive(&cookie), Vec::<i32>::new(), "{way}");
    }
}

#[tokio::test]
async fn the_definitions_time_counts_where_it_is_shorter_and_a_request_to_end_is_heard() {
    let trap = "trap 'echo bye; exit 7' TERM; echo begun; while :; do sleep 0.1; done";
    let story = Story::begin(&script("job.polite", trap, "timeout_seconds = 600\ngrace_seconds = 30")).await;
    let definition =
        Definition { timeout_seconds: Some(2), max_attempts: Some(1), ..Definition::new("job.polite") };
    define(&story.operator, definition).await;
    let (job, attempt) = story.run("job.polite", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.status.as_str()), ("dead", "timeout"));
    assert_eq!((attempt.exit_code, attempt.stdout_tail.as_deref()), (Some(7), Some("begun\nbye\n")));
    let error = attempt.error.unwrap();
    assert!(
        error.starts_with("timed out after 2 s: command job.polite: it was stopped, exit code 7"),
        "{error}"
    );
}

#[tokio::test]
async fn what_a_command_leaves_behind_dies_with_its_good_end_and_holds_no_slot() {
    for way in WAYS {
        let cookie = cookie();
        let text = format!("namespaces = \"{way}\"\n")
            + &script(
                "job.daemon",
                "(setsid sh -c 'echo daemon; sleep 601' &); setsid sleep 602 & sleep 0.2; echo done",
                &format!("env = {{ set = {{ COOKIE = \"{cookie}\" }} }}"),
            );
        let story = Story::begin(&text).await;
        let began = Instant::now();
        let (job, attempt) = story.run("job.daemon", json!({})).await;
        assert_eq!((job.status.as_str(), attempt.exit_code), ("succeeded", Some(0)), "{way}");
        assert!(attempt.stdout_tail.unwrap().ends_with("done\n"), "{way}");
        assert_eq!(alive(&cookie), Vec::<i32>::new(), "{way}");
        assert!(
            began.elapsed() < Duration::from_secs(500),
            "{way}: it waited for a sleeper that held the pipe"
        );
    }
}

#[tokio::test]
async fn a_worker_that_stops_at_once_takes_its_commands_along() {
    let cookie = cookie();
    let story = Story::begin_with(&stubborn("auto", &cookie, "grace_seconds = 300"), |config, _| {
        config.grace_seconds = 0;
        config.stop_grace = Duration::from_millis(100);
    })
    .await;
    let id = story.enqueue("job.stubborn", json!({})).await;
    whole_tree(&cookie).await;
    story.worker.shutdown().await;
    eventually("the tree is gone", async || alive(&cookie).is_empty().then_some(())).await;
    let job = rpc::get_job(&story.app, TENANT_A, id).await.unwrap();
    assert_eq!((job.status.as_str(), job.failures), ("queued", 0), "it goes back free");
}

/// The longest grace of a command is longer than most leases.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_lease_ends_without_a_beat_is_killed_whatever_its_grace() {
    for way in WAYS {
        let cookie = cookie();
        let points = FaultPoints::new();
        let held = points.clone();
        let story = Story::begin_with(&stubborn(way, &cookie, "grace_seconds = 300"), |config, _| {
            config.lease_seconds = 2;
            config.faults = Faults::at_points(Arc::new(move |point| {
                let held = held.clone();
                Box::pin(async move {
                    let _ = held.hit(point).await;
                })
            }));
        })
        .await;
        story.enqueue("job.stubborn", json!({})).await;
        whole_tree(&cookie).await;
        points.pause("claim");
        points.pause("beat");
        eventually("the tree is gone", async || alive(&cookie).is_empty().then_some(())).await;
        story.worker.vanish();
    }
}

/// Without a namespace, a supervisor that is killed cannot clean up: the worker does.
#[tokio::test]
async fn a_killed_supervisor_leaves_nothing_behind_while_its_worker_lives() {
    for way in WAYS {
        let cookie = cookie();
        let story = Story::begin(&stubborn(way, &cookie, "")).await;
        let id = story.enqueue("job.stubborn", json!({})).await;
        whole_tree(&cookie).await;
        let worker = i32::try_from(std::process::id()).unwrap();
        let pid = eventually("its process is told", async || {
            story.attempt(id).await?.pid.filter(|pid| *pid != worker)
        })
        .await;
        let supervisor = parent(pid);
        assert!(name(supervisor).starts_with("jobforge: command"), "{way}: {}", name(supervisor));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), nix::sys::signal::Signal::SIGKILL)
            .unwrap();
        let (job, attempt) = story.over(id).await;
        assert_eq!(job.status, "dead", "{way}");
        let error = attempt.error.unwrap();
        assert_eq!(error, "command job.stubborn: its supervisor died, and it was killed", "{way}");
        eventually("nothing is left", async || alive(&cookie).is_empty().then_some(())).await;
        assert_eq!(rooms(story.dir.path()), 0, "{way}: nor its directory");
    }
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

fn name(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}
