//! What a command gets to see: its own environment, its own descriptors, its own directory.

use std::fs;
use std::os::fd::AsRawFd;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::json;

use super::{Story, WAYS, is_root, script, sharing_script};

/// This process's environment holds what no command may see. Nothing else in it may be a secret of its own.
const CANARY: &str = "NEXTEST";

#[tokio::test]
async fn the_environment_holds_what_the_file_names_and_nothing_else() {
    assert!(std::env::vars().any(|(name, _)| name.starts_with(CANARY)), "the stories run under nextest");
    let more = "env = { pass = [\"NEXTEST_RUN_ID\", \"NOT_THERE\"], set = { FIXED = \"a b\", PATH = \"/bin\" }, \
                secret = { TOKEN = \"env:NEXTEST_EXECUTION_MODE\" } }";
    let text = script(
        "job.env",
        "tr '\\0' '\\n' < /proc/self/environ; (tr '\\0' '\\n' < /proc/$PPID/environ) >&2 || :",
        more,
    );
    for way in WAYS {
        let story = Story::begin(&format!("namespaces = \"{way}\"\n{text}")).await;
        let (job, attempt) = story.run("job.env", json!({})).await;
        assert_eq!(job.status, "succeeded", "{:?}", job.error);
        let told = attempt.stdout_tail.unwrap();
        let mut names: Vec<&str> = told.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        let wanted = [
            "FIXED",
            "JOBFORGE_ATTEMPT",
            "JOBFORGE_JOB_ID",
            "JOBFORGE_RUN",
            "JOBFORGE_TENANT_ID",
            "NEXTEST_RUN_ID",
            "PATH",
            "TMPDIR",
            "TOKEN",
        ];
        assert_eq!(names, wanted, "{way}");
        for line in [
            format!("JOBFORGE_JOB_ID={}", job.id),
            "JOBFORGE_ATTEMPT=1".into(),
            "FIXED=a b".into(),
            "PATH=/bin".into(),
        ] {
            assert!(told.lines().any(|found| found == line), "{way}: {line}\n{told}");
        }
        assert!(
            told.contains("TOKEN=[redacted]"),
            "{way}: a secret is not stored with what the program prints: {told}"
        );
        // Of its supervisor it may not read the environment, or finds it empty.
        let of_parent = attempt.stderr_tail.unwrap_or_default();
        assert!(of_parent.is_empty() || of_parent.contains("ermission denied"), "{way}: {of_parent}");
    }
}

#[tokio::test]
async fn a_secret_is_hidden_in_results_and_in_other_spellings() {
    let more = "env.secret = { TOKEN = \"env:NEXTEST_EXECUTION_MODE\" }\nresult = \"last_line_json\"";
    let tells = "printf %s \"$TOKEN\" | base64; printf '{\"token\": \"%s\"}' \"$TOKEN\"";
    let story = Story::begin(&script("job.tells", tells, more)).await;
    let (job, attempt) = story.run("job.tells", json!({})).await;
    assert_eq!(job.status, "succeeded", "{:?}", job.error);
    let token = std::env::var("NEXTEST_EXECUTION_MODE").unwrap();
    let told = format!("{:?} {:?} {:?}", job.result, attempt.stdout_tail, attempt.log);
    for form in [STANDARD_NO_PAD.encode(&token), token] {
        assert!(!told.contains(&form), "{form} in {told}");
    }
}

/// Dropped to another user it cannot read the worker's environment either, and in a namespace it does not see it.
#[tokio::test]
async fn the_workers_environment_is_out_of_reach() {
    if !is_root() {
        eprintln!("not root: nobody to drop to");
        return;
    }
    // Groups that the worker has, and nobody else should.
    nix::unistd::setgroups(&[0, 4, 5].map(nix::unistd::Gid::from_raw)).unwrap();
    for way in WAYS {
        let read = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c NEXTEST_";
        let text = format!("namespaces = \"{way}\"\n")
            + &script(
                "job.looks",
                &format!("id -u; id -G; {read}"),
                "user = \"nobody\"\nexit_codes = { success = [0, 1] }",
            );
        let story = Story::begin(&text).await;
        let (_, attempt) = story.run("job.looks", json!({})).await;
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        assert_eq!(attempt.stdout_tail.unwrap(), format!("{}\n{}\n0\n", nobody.uid, nobody.gid), "{way}");
    }
}

#[tokio::test]
async fn a_command_has_three_descriptors_its_own_session_and_no_new_privileges() {
    // One that the worker inherited from whoever started it, and does not close when it starts others.
    let secret = fs::File::open("/etc/passwd").unwrap();
    fcntl(&secret, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    assert!(secret.as_raw_fd() > 2);
    let look = "ls /proc/$$/fd; cut -d' ' -f5,6 /proc/$$/stat; grep NoNewPrivs /proc/$$/status; grep SigIgn /proc/$$/status; echo $$";
    for way in WAYS {
        let story =
            Story::begin(&(format!("namespaces = \"{way}\"\n") + &script("job.looks", look, ""))).await;
        let (_, attempt) = story.run("job.looks", json!({})).await;
        let told = attempt.stdout_tail.unwrap();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[..3], ["0", "1", "2"], "{way}: {told}");
        let own = lines.last().unwrap();
        assert_eq!(lines[3], format!("{own} {own}"), "{way}: leader of its group and its session");
        assert_eq!(lines[4], "NoNewPrivs:\t1", "{way}");
        // The first 31 signals; two beyond them belong to the C library.
        let ignored = u64::from_str_radix(lines[5].split('\t').next_back().unwrap(), 16).unwrap();
        assert_eq!(ignored & 0x7fff_ffff, 0, "{way}: {told}");
    }
}

/// Two commands of two users: neither reads the other's directory, nor what it wrote there.
#[tokio::test]
async fn a_directory_is_closed_to_the_commands_of_other_users() {
    if !is_root() {
        eprintln!("not root: nobody to drop to");
        return;
    }
    let keeps =
        "umask 0; echo private > secret; pwd > @DIR/where; while [ ! -e @DIR/go ]; do sleep 0.1; done";
    let spies = "cd \"$(cat @DIR/where)\" 2>/dev/null && echo in; cat \"$(cat @DIR/where)/secret\" 2>/dev/null; \
                 touch \"$(cat @DIR/where)/new\" 2>/dev/null && echo wrote; echo over";
    let text = sharing_script("job.keeps", keeps, "user = \"nobody\"")
        + &sharing_script("job.spies", spies, "user = \"daemon\"")
        + &script(
            "job.etc",
            "cat /etc/shadow 2>/dev/null; touch /etc/jobforge-was-here 2>/dev/null; echo over",
            "user = \"daemon\"",
        );
    let story = Story::begin(&text).await;
    let keeper = story.enqueue("job.keeps", json!({})).await;
    super::eventually("the directory is there", async || {
        fs::read_to_string(story.path("where")).ok().filter(|path| path.ends_with('\n'))
    })
    .await;
    for key in ["job.spies", "job.etc"] {
        let (_, attempt) = story.run(key, json!({})).await;
        assert_eq!(attempt.stdout_tail.as_deref(), Some("over\n"), "{key}");
    }
    fs::write(story.path("go"), "").unwrap();
    assert_eq!(story.over(keeper).await.0.status, "succeeded");
}
