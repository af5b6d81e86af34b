//! A command that runs: what it is given, what is kept of it, what its end means.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use jobforge_core::rpc;
use jobforge_testkit::TENANT_A;
use serde_json::{Value, json};

use super::{Story, eventually, rooms, script, sharing_script};

#[tokio::test]
async fn a_programs_process_exit_tails_log_and_result_are_kept_of_a_good_attempt() {
    let text = script(
        "job.good",
        r#"printf 'first\n\001bad \377 nul \000 end\n'; echo careful >&2; printf '{"sum": 1.10}\n\n'"#,
        "result = \"last_line_json\"",
    );
    let story = Story::begin(&text).await;
    let (job, attempt) = story.run("job.good", json!({})).await;
    assert_eq!((job.status.as_str(), job.error.as_deref()), ("succeeded", None));
    assert_eq!(job.result.unwrap().get(), r#"{"sum": 1.10}"#, "as it was printed");
    assert_eq!((attempt.exit_code, attempt.signal), (Some(0), None));
    assert_ne!(
        attempt.pid,
        Some(i32::try_from(std::process::id()).unwrap()),
        "the program's, not the worker's"
    );
    let stdout = attempt.stdout_tail.unwrap();
    assert_eq!(stdout, "first\n\u{1}bad \\xff nul \\x00 end\n{\"sum\": 1.10}\n\n");
    assert_eq!(attempt.stderr_tail.as_deref(), Some("careful\n"));
    let log: Vec<Value> = serde_json::from_str(attempt.log.unwrap().get()).unwrap();
    let told =
        |line: &Value| format!("{} {}", line["level"].as_str().unwrap(), line["message"].as_str().unwrap());
    let log: Vec<String> = log.iter().map(told).collect();
    for line in ["info first", "warn careful", "info {\"sum\": 1.10}"] {
        assert!(log.contains(&line.to_owned()), "{line}: {log:?}");
    }
}

#[tokio::test]
async fn a_running_command_shows_its_process_and_what_it_says() {
    let text = sharing_script("job.waits", "echo begun; while [ ! -e @DIR/go ]; do sleep 0.1; done", "");
    let story = Story::begin(&text).await;
    let id = story.enqueue("job.waits", json!({})).await;
    let pid = eventually("its process and its line are told", async || {
        let attempt = story.attempt(id).await?;
        let said = attempt.log.is_some_and(|log| log.get().contains("begun"));
        attempt.pid.filter(|pid| said && attempt.status == "running" && *pid != worker_pid())
    })
    .await;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(line.starts_with(b"/bin/sh\0-c\0"), "{:?}", String::from_utf8_lossy(&line));
    fs::write(story.path("go"), "").unwrap();
    assert_eq!(story.over(id).await.0.status, "succeeded");
}

fn worker_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

#[tokio::test]
async fn exit_codes_and_signals_have_their_meanings() {
    let text = script("job.exit", "echo why >&2; exit $0", "")
        .replace("''']", "''', \"{payload.code}\"]\nexit_codes = { success = [0, 3], permanent = [4] }")
        + &script("job.signal", "kill -9 $$", "");
    let story = Story::begin(&text).await;
    for (code, status, class) in [
        (0, "succeeded", None),
        (3, "succeeded", None),
        (4, "failed", Some("permanent")),
        (127, "failed", Some("permanent")),
        (9, "dead", Some("retryable")),
    ] {
        let (job, attempt) = story.run("job.exit", json!({ "code": code })).await;
        assert_eq!((job.status.as_str(), attempt.error_class.as_deref()), (status, class), "{code}");
        assert_eq!(attempt.exit_code, Some(code));
        let error = (status != "succeeded").then(|| format!("command job.exit: exit code {code}: why"));
        assert_eq!(attempt.error, error);
    }
    let (job, attempt) = story.run("job.signal", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.exit_code, attempt.signal), ("dead", None, Some(9)));
    assert_eq!(attempt.error.as_deref(), Some("command job.signal: killed by signal 9"));
}

#[tokio::test]
async fn a_result_that_is_no_json_fails_for_good_and_says_so() {
    let more = "result = \"last_line_json\"";
    let text = script("job.prose", "echo all is well", more) + &script("job.silent", ":", more);
    let story = Story::begin(&text).await;
    let (job, attempt) = story.run("job.prose", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.exit_code), ("failed", Some(0)));
    assert!(attempt.error.unwrap().starts_with("command job.prose: its last line is no JSON: "));
    let (job, attempt) = story.run("job.silent", json!({})).await;
    assert_eq!(job.status, "failed");
    assert_eq!(attempt.error.unwrap(), "command job.silent: it printed no line that could be its result");
}

#[tokio::test]
async fn the_payload_comes_on_standard_input_as_it_was_enqueued() {
    let text = sharing_script(
        "job.reads",
        "cat > @DIR/stdin; echo $(wc -c < @DIR/stdin)",
        "stdin = \"payload\"\nresult = \"last_line_json\"",
    ) + &script("job.nothing", "cat | wc -c", "result = \"last_line_json\"");
    let story = Story::begin(&text).await;
    let payload = json!({ "n": 1.5, "text": "x".repeat(200_000) });
    let (job, _) = story.run("job.reads", payload.clone()).await;
    assert_eq!(job.status, "succeeded");
    assert_eq!(serde_json::from_str::<Value>(&story.read("stdin")).unwrap(), payload);
    assert_eq!(story.run("job.nothing", payload).await.0.result.unwrap().get(), "0");
}

#[tokio::test]
async fn data_arrives_as_one_argument_each_or_not_at_all() {
    let text = "[commands.\"job.args\"]\nprogram = \"/bin/sh\"\nprivate_tmp = false\n\
        args = [\"-c\", 'for a in \"$@\"; do printf \"[%s]\\n\" \"$a\"; done > @DIR/argv', \"sh\", \"{payload.a}\", \
        \"--b={payload.b}\", { optional = [\"-c\", \"{payload.c}\"] }, \"--\", \"{payload.d}\"]\n";
    let story = Story::begin(text).await;
    let evil = "a b; touch @DIR/x $(touch @DIR/x) `id` * \"'\\ \n|&><";
    let payload = json!({ "a": evil, "b": "--output=/etc/x", "d": "-oProxyCommand=touch @DIR/x" });
    assert_eq!(story.run("job.args", payload).await.0.status, "succeeded");
    let wanted = format!("[{evil}]\n[--b=--output=/etc/x]\n[--]\n[-oProxyCommand=touch @DIR/x]\n");
    assert_eq!(story.read("argv"), wanted);
    fs::remove_file(story.path("argv")).unwrap();

    for (payload, why) in [
        (
            json!({ "a": "-rf", "b": "", "d": "" }),
            "args[3]: the value begins with a dash, and could be taken for an option",
        ),
        (
            json!({ "a": "", "b": "", "c": "--x", "d": "" }),
            "args[5].optional[1]: the value begins with a dash, and could be taken for an option",
        ),
        (
            json!({ "a": {}, "b": "", "d": "" }),
            "args[3]: payload.a is an object or a list, and the command takes neither here",
        ),
        (json!({ "a": "", "b": null, "d": "" }), "args[4]: payload.b is absent or null"),
    ] {
        let (job, attempt) = story.run("job.args", payload).await;
        assert_eq!((job.status.as_str(), attempt.error_class.as_deref()), ("failed", Some("permanent")));
        let error = attempt.error.unwrap();
        assert!(error.starts_with("command job.args: ") && error.ends_with(why), "{error}");
        assert_eq!((attempt.exit_code, story.path("argv").exists()), (None, false), "it was not started");
    }
}

#[tokio::test]
async fn each_attempt_has_a_directory_of_its_own_that_is_gone_after_it() {
    let text = "directory_root = \"@DIR\"\n".to_owned()
        + &script(
            "job.dir",
            "pwd; stat -c %a .; echo $TMPDIR; mkdir -p deep/er; touch deep/er/file; chmod 0 deep",
            "",
        );
    let story = Story::begin(&text).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (job, attempt) = story.run("job.dir", json!({})).await;
        assert_eq!(job.status, "succeeded");
        let told = attempt.stdout_tail.unwrap();
        let mut lines = told.lines().map(str::to_owned);
        let (dir, mode) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(dir.starts_with(story.dir.path().to_str().unwrap()), "{dir}");
        assert_eq!((mode.as_str(), lines.next()), ("700", Some(dir.clone())));
        assert!(!std::path::Path::new(&dir).exists(), "{dir} is still there");
        assert!(!seen.contains(&dir));
        seen.push(dir);
    }
    assert_eq!(rooms(story.dir.path()), 0);
}

#[tokio::test]
async fn what_cannot_start_says_why_and_whether_to_try_again() {
    let text = "directory_root = \"@DIR/root\"\n".to_owned()
        + "[commands.\"job.gone\"]\nprogram = \"@DIR/program\"\n"
        + &script("job.placed", ":", "directory = \"@DIR/place\"");
    let dir = super::open_dir();
    let text = text.replace("@DIR", dir.path().to_str().unwrap());
    let program = dir.path().join("program");
    fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.path().join("place")).unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let story = Story::begin(&text).await;

    fs::remove_dir_all(&root).unwrap();
    let (job, attempt) = story.run("job.gone", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.error_class.as_deref()), ("dead", Some("retryable")));
    let error = attempt.error.unwrap();
    assert!(error.contains("cannot make the directory") && error.contains("No such file"), "{error}");

    fs::create_dir(&root).unwrap();
    assert_eq!(story.run("job.gone", json!({})).await.0.status, "succeeded");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    let (job, attempt) = story.run("job.gone", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.error_class.as_deref()), ("failed", Some("permanent")));
    let error = attempt.error.unwrap();
    assert!(error.contains(&format!("cannot run {}: Permission denied", program.display())), "{error}");
    fs::remove_file(&program).unwrap();
    let (job, attempt) = story.run("job.gone", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.exit_code), ("failed", None));
    let error = attempt.error.unwrap();
    assert!(error.contains(&format!("cannot run {}: No such file", program.display())), "{error}");
    assert_eq!(rooms(&root), 0, "no directory is left");

    fs::remove_dir(dir.path().join("place")).unwrap();
    let (job, attempt) = story.run("job.placed", json!({})).await;
    assert_eq!(job.status, "dead");
    assert!(attempt.error.unwrap().contains("cannot enter its directory: No such file"));
}

#[tokio::test]
async fn a_key_that_is_not_in_the_file_is_never_claimed_and_explained() {
    let story = Story::begin(&script("job.known", ":", "")).await;
    super::define(&story.operator, jobforge_core::Definition::new("job.unknown")).await;
    let id = story.enqueue("job.unknown", json!({})).await;
    assert_eq!(story.run("job.known", json!({})).await.0.status, "succeeded");
    let reasons = rpc::explain_job(&story.app, TENANT_A, id).await.unwrap();
    assert!(reasons.iter().any(|reason| reason.reason.contains("worker")), "{reasons:?}");
    assert_eq!(rpc::get_job(&story.app, TENANT_A, id).await.unwrap().attempt, 0);
}
