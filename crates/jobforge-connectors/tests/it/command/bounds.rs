//! Limits hold, and a neighbour notices nothing.

use std::time::Duration;

use serde_json::json;

use super::{Story, alive, cookie, is_root, script, sharing_script};

/// The most memory this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn serial_five_gigabytes_of_output_are_read_in_little_memory() {
    let text = script(
        "job.loud",
        "head -c 5368709120 /dev/zero; echo; echo end",
        "limits = { output_mb = 6000 }\ntimeout_seconds = 280",
    );
    let story = Story::begin(&text).await;
    let before = peak();
    let (job, attempt) = story.run("job.loud", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.error), ("succeeded", None));
    assert!(attempt.stdout_tail.unwrap().ends_with("end\n"));
    let grown = peak() - before;
    assert!(grown < 64 * 1024 * 1024, "{} MB more", grown / 1024 / 1024);
}

#[tokio::test]
async fn too_much_output_ends_a_command_for_good_and_its_neighbour_goes_on() {
    let text = script("job.flood", "yes 'a line of output'", "limits = { output_mb = 2 }")
        + &script("job.near", "echo ok", "");
    let story = Story::begin(&text).await;
    let flood = story.enqueue("job.flood", json!({})).await;
    assert_eq!(story.run("job.near", json!({})).await.0.status, "succeeded");
    let (job, attempt) = story.over(flood).await;
    assert_eq!((job.status.as_str(), attempt.error_class.as_deref()), ("failed", Some("permanent")));
    assert_eq!(attempt.error.unwrap(), "command job.flood: it printed more than 2 MB and was killed");
    assert!(attempt.stdout_tail.unwrap().len() > 60_000);
    let log: Vec<serde_json::Value> = serde_json::from_str(attempt.log.unwrap().get()).unwrap();
    assert!(log.len() <= 10_001, "{}", log.len());
    let last = log.last().unwrap()["message"].as_str().unwrap();
    assert!(last.ends_with("more lines are not in this log"), "{last}");
}

#[tokio::test]
async fn a_file_grows_no_larger_than_it_may_not_even_with_holes() {
    let text = sharing_script("job.sparse", "truncate -s 100G @DIR/big", "limits = { file_mb = 1 }")
        + &sharing_script("job.writes", "head -c 10485760 /dev/zero > @DIR/real", "limits = { file_mb = 1 }");
    let story = Story::begin(&text).await;
    for (key, file) in [("job.sparse", "big"), ("job.writes", "real")] {
        let (job, _) = story.run(key, json!({})).await;
        assert_eq!(job.status, "dead", "{key}");
        let size = std::fs::metadata(story.path(file)).unwrap().len();
        assert!(size <= 1024 * 1024, "{key}: {size}");
    }
}

#[tokio::test]
async fn memory_processor_and_descriptors_are_bounded() {
    let text = script(
        "job.memory",
        "head -c 500000000 /dev/zero | tail -c 400000000 | wc -c",
        "limits = { memory_mb = 100 }",
    ) + &script("job.spin", "while :; do :; done", "limits = { cpu_seconds = 1 }")
        + &script(
            "job.files",
            "ulimit -n; ulimit -c; ulimit -v",
            "limits = { open_files = 32, memory_mb = 512 }",
        );
    let story = Story::begin(&text).await;
    let (_, attempt) = story.run("job.memory", json!({})).await;
    assert_ne!(attempt.stdout_tail.as_deref(), Some("400000000\n"), "{:?}", attempt.stderr_tail);
    let (job, attempt) = story.run("job.spin", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.signal), ("dead", Some(24)), "SIGXCPU");
    let (_, attempt) = story.run("job.files", json!({})).await;
    assert_eq!(attempt.stdout_tail.as_deref(), Some("32\n0\n524288\n"));
}

/// As a user of its own, with as many processes as the limit says, where a thousand would come; its neighbour is
/// another user.
#[tokio::test]
async fn serial_a_fork_bomb_stays_within_its_limit_and_is_gone_after_its_time() {
    if !is_root() {
        eprintln!("not root: nobody to drop to");
        return;
    }
    for way in super::WAYS {
        let cookie = cookie();
        let bomb = format!(
            "user = \"nobody\"\ntimeout_seconds = 3\ngrace_seconds = 0\nenv = {{ set = {{ COOKIE = \"{cookie}\" }} }}\n\
             limits = {{ processes = 100, memory_mb = 200, output_mb = 4096 }}"
        );
        let text = format!("namespaces = \"{way}\"\n")
            + &script(
                "job.bomb",
                "bomb() { if [ $1 -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi; exec sleep 600; }; bomb 9",
                &bomb,
            )
            + &script("job.near", "echo ok", "user = \"daemon\"");
        let story = Story::begin(&text).await;
        let id = story.enqueue("job.bomb", json!({})).await;
        let mut most = 0;
        while story.attempt(id).await.is_none_or(|attempt| attempt.status == "running") {
            most = most.max(alive(&cookie).len());
            assert_eq!(story.run("job.near", json!({})).await.0.status, "succeeded", "{way}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!((20..=101).contains(&most), "{way}: {most}");
        assert_eq!(story.over(id).await.1.status, "timeout", "{way}");
        assert_eq!(alive(&cookie), Vec::<i32>::new(), "{way}: at most {most} lived");
    }
}
