//! The settings: where they come from, and that no password is shown.

use std::fs;

use crate::{Ran, jobforge, run};

#[test]
fn settings_are_shown_with_their_origin_and_without_passwords() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("jobforge.toml"), "[worker]\nslots = 3\nlease_seconds = 20\n").unwrap();
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
