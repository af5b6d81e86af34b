//! The settings: where they come from, and that no password is shown.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::unistd::{User, geteuid};

use crate::dev_server::open_dir;
use crate::{Ran, jobforge, run};

#[test]
fn settings_are_shown_with_their_origin_and_without_passwords() {
    let dir = tempfile::tempdir().unwrap();
    let artifacts = "[artifacts]\nurl = 's3://b'\nendpoint = 'https://e:hidden@h'";
    let text = format!("[worker]\nslots = 3\nlease_seconds = 20\n{artifacts}");
    fs::write(dir.path().join("jobforge.toml"), text).unwrap();
    let shown = jobforge(dir.path())
        .args(["config", "show", "--json", "--direct-url", "postgres://d:hidden@h/x"])
        .env("DATABASE_URL", "postgres://a:hidden@h/x")
        .env("JOBFORGE_WORKER__SLOTS", "4")
        .output()
        .unwrap();
    let shown = Ran::of(shown);
    assert!(!shown.stdout.contains("hidden"), "{shown:?}");
    let json = shown.json();
    let setting =
        |key: &str| (json[key]["value"].to_string(), json[key]["origin"].as_str().unwrap().to_owned());
    assert_eq!(setting("worker.slots"), ("4".to_owned(), "environment".to_owned()));
    assert_eq!(setting("worker.lease_seconds"), ("20".to_owned(), "jobforge.toml".to_owned()));
    assert_eq!(setting("scheduler.lead_every_ms"), ("3000".to_owned(), "default".to_owned()));
    assert_eq!(setting("database_url"), ("\"postgres://a:***@h/x\"".to_owned(), "DATABASE_URL".to_owned()));
    assert_eq!(setting("direct_url").1, "flag");
    assert_eq!(setting("artifacts.endpoint").0, "\"https://e:***@h\"");
}

#[test]
fn unknown_settings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let typo =
        Ran::of(jobforge(dir.path()).args(["config", "show"]).env("JOBFORGE_SLOTS", "4").output().unwrap());
    assert_eq!(typo.code, 2, "{typo:?}");
    assert!(typo.stderr.contains("slots"), "{typo:?}");
    fs::write(dir.path().join("jobforge.toml"), "[worker]\nslot = 3\n").unwrap();
    let typo = run(dir.path(), &["config", "show"]);
    assert_eq!(typo.code, 2, "{typo:?}");
    assert!(typo.stderr.contains("slot"), "{typo:?}");
}

/// A password may stand where it does not belong, or behind a quote that is missing.
#[test]
fn a_refusal_tells_where_it_is_and_repeats_no_value() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str, value: &str, expected: &[&str]| {
        let shown = jobforge(dir.path()).args(["config", "show"]).env(name, value).output().unwrap();
        let shown = Ran::of(shown);
        assert_eq!(shown.code, 2, "{expected:?}: {shown:?}");
        assert!(!shown.stderr.contains("canary"), "{shown:?}");
        expected.iter().for_each(|part| assert!(shown.stderr.contains(part), "{part}: {shown:?}"));
    };
    let (secret, nobody) = ("amqp://u:canary@h", "11111111-1111-1111-1111-111111111111");
    refused("JOBFORGE_WORKER__SLOTS", secret, &["worker.slots", "an integer", "the environment"]);
    let file = dir.path().join("jobforge.toml");
    for (text, expected) in [
        (format!("# x\ndatabase_url = \"{secret}/x"), ["jobforge.toml", "line 2, column 36", "basic string"]),
        (format!("database_url = {secret}"), ["jobforge.toml", "line 1, column 16", "string values must be"]),
        (format!("worker = \"{secret}\""), ["understood", "struct WorkerSettings", "for key `worker`"]),
        (format!("[worker]\nslots = \"{secret}\""), ["jobforge.toml", "worker.slots", "an integer"]),
        (format!("[worker]\nqueues = \"{secret}\""), ["understood", "worker.queues", "a sequence"]),
        (format!("[broker]\npublish = \"{secret}\""), ["jobforge.toml", "broker.publish", "a boolean"]),
        (format!("[egress]\nports = \"{secret}\""), ["understood", "egress.ports", "separated by commas"]),
        (format!("[log]\nformat = \"{secret}\""), ["understood", "log.format", "does not have"]),
        (format!("[server]\nlisten = \"{secret}\""), ["understood", "server.listen", "socket address"]),
        (format!("tenant = \"{secret}\""), ["understood", "tenant", "UUID"]),
        (
            format!("[worker]\nqueues = [\"a\", \"{secret}\"]"),
            ["worker.queues", "queue 2", "1 to 63 letters"],
        ),
        ("[worker]\nqueues = [\"canary\", \"canary\"]".to_owned(), ["worker.queues", "queue 2", "twice"]),
        (
            format!("[worker]\nsecret_env = [\"A\", \"{secret}\"]"),
            ["worker.secret_env", "entry 2", "a variable's"],
        ),
        (
            format!("[egress]\nallow = [\"::1\", \"{secret}\"]"),
            ["egress.allow", "entry 2", "no address range"],
        ),
        (format!("[egress]\ndeny = [\"{secret}\"]"), ["egress.deny", "entry 1", "no address range"]),
        (
            format!("[egress.tenants]\n{nobody} = [\"{secret}\"]"),
            ["egress.tenants", "entry 1", "no address range"],
        ),
        (format!("[egress.tenants]\n\"{secret}\" = [\"::1\"]"), ["understood", "egress.tenants", "UUID"]),
        (format!("[server]\nhosts = [\"{secret}\"]"), ["server.hosts", "names alone", "without scheme"]),
        ("[artifacts]\nurl = \"s3://u:canary@b\"".to_owned(), ["artifacts", "file:///", "s3://bucket"]),
    ] {
        fs::write(&file, text).unwrap();
        refused("JOBFORGE_LOG__FILTER", "info", &expected);
    }
}

/// Also root, who may read everything, meets a file that cannot be read.
#[test]
fn a_file_of_settings_that_cannot_be_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("jobforge.toml")).unwrap();
    let refused = run(dir.path(), &["config", "show"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("cannot read jobforge.toml: Is a directory"), "{refused:?}");
}

/// Nothing is closed to root: as root this is for `nobody`.
#[test]
fn a_directory_that_may_not_be_entered_has_no_settings_and_a_file_that_is_closed_is_refused() {
    let dir = open_dir();
    let program = dir.path().join("jobforge");
    fs::copy(assert_cmd::cargo::cargo_bin!("jobforge"), &program).unwrap();
    let nobody = geteuid().is_root().then(|| User::from_name("nobody").unwrap().unwrap());
    let shown = |name: &str, closes: &str| {
        let place = dir.path().join(name);
        fs::create_dir(&place).unwrap();
        let script = format!("cd \"$1\" && {closes} && exec \"$2\" config show");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).args([&place, &program]).current_dir("/").env_clear();
        if let Some(nobody) = &nobody {
            chown(&place, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
            command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
        }
        let shown = Ran::of(command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap());
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
        shown
    };
    let entered = shown("directory", "chmod 0 .");
    assert!(entered.code == 0 && entered.stdout.contains("worker.slots"), "{entered:?}");
    let closed = shown("file", ": > jobforge.toml && chmod 0 jobforge.toml");
    assert_eq!(closed.code, 2, "{closed:?}");
    assert!(closed.stderr.contains("cannot read jobforge.toml: Permission denied"), "{closed:?}");
}
