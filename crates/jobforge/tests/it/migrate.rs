//! `jobforge migrate` on an empty database.

use jobforge_testkit::{OPERATOR, TestDb};

use crate::{Cli, Ran, jobforge, run};

#[tokio::test]
async fn an_empty_database_is_planned_migrated_and_then_up_to_date() {
    let db = TestDb::blank().await;
    let dir = tempfile::tempdir().unwrap();
    let url = db.super_url();
    let migrate = |args: &[&str]| {
        Ran::of(jobforge(dir.path()).arg("migrate").args(args).env("DATABASE_URL", &url).output().unwrap())
    };
    let before = migrate(&["status", "--json"]);
    assert_eq!((before.code, &before.parsed()["current"]), (1, &false.into()), "{before:?}");

    let planned = migrate(&["--dry-run", "--json"]).json();
    assert_eq!(planned["migrations"][0], "0001_roles");
    assert_eq!(migrate(&["status", "--json"]).code, 1, "a dry run changes nothing");

    let applied = migrate(&["up", "--json"]).json();
    assert_eq!(applied["applied"].as_array().unwrap().len(), planned["migrations"].as_array().unwrap().len());
    assert!(migrate(&["status"]).stdout.contains("The schema is up to date."));
    assert_eq!(migrate(&["up"]).stdout, "nothing to do: the schema is up to date\n");
}

#[tokio::test]
async fn a_migration_of_another_text_is_not_told_to_be_mended_by_migrating() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let status = |words: &str| {
        let ran = cli.run(&["migrate", "status"]);
        assert!(ran.stdout.contains(words), "{ran:?}");
    };
    status("The schema is up to date.");
    let admin = db.connect_super().await;
    admin
        .batch_execute("update jobforge.schema_functions set sha256 = 'old' where name = '00_base'")
        .await
        .unwrap();
    status("The schema is not up to date: jobforge migrate");
    admin
        .batch_execute("update jobforge.schema_migrations set sha256 = 'other' where version = 2")
        .await
        .unwrap();
    status("No migration mends this");
}

#[test]
fn the_sql_can_be_printed_without_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let printed = run(dir.path(), &["migrate", "--print"]);
    assert_eq!(printed.code, 0);
    for part in ["create schema jobforge", "function jobforge.enqueue_job(", "function jobforge.claim_jobs("]
    {
        assert!(printed.stdout.contains(part), "{part} is missing");
    }
    let both = run(dir.path(), &["migrate", "--print", "--dry-run"]);
    assert_eq!(both.code, 2, "{both:?}");
}
