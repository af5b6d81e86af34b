//! `jobforge doctor` on databases that are not well; `dev.rs` has one that is.

use jobforge_core::rpc::lead;
use jobforge_testkit::{APP, OPERATOR, PASSWORD, TestDb};
use serde_json::Value;

use crate::{Cli, Ran, jobforge};

fn verdict<'a>(report: &'a Value, name: &str) -> &'a str {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap()["verdict"].as_str().unwrap()
}

#[tokio::test]
async fn a_table_without_row_security_is_found_in_the_catalog_and_by_looking() {
    let db = TestDb::new().await;
    let app = Cli::new(&db, APP);
    app.run(&["enqueue", "test.noop", "--json"]).json();
    let admin = db.connect_super().await;
    let open = "alter table jobforge.jobs disable row level security";
    admin.batch_execute(open).await.unwrap();
    let drop_ahead = "do $$ declare v_leaf text; begin
        for v_leaf in select relname from pg_class where relname ~ '^job_history_week_[0-9]{8}$' loop
          execute format('drop table jobforge.%I', v_leaf);
        end loop; end $$";
    admin.batch_execute(drop_ahead).await.unwrap();
    let operator = Cli::new(&db, OPERATOR);
    let sick = operator.run(&["doctor", "--json"]);
    assert_eq!(sick.code, 1, "{sick:?}");
    let report = sick.parsed();
    assert_eq!(report["healthy"], false);
    assert_eq!(verdict(&report, "row security"), "fail");
    assert_eq!(verdict(&report, "isolation probe"), "fail");
    assert_eq!(verdict(&report, "login"), "ok");
    // Nobody runs on this database.
    assert_eq!(verdict(&report, "scheduler"), "fail");
    assert_eq!(verdict(&report, "partitions ahead"), "fail");
    assert_eq!(verdict(&report, "workers"), "warn");
}

#[tokio::test]
async fn rows_in_a_default_partition_are_told_with_advice() {
    let db = TestDb::new().await;
    let admin = db.connect_super().await;
    let operator = Cli::new(&db, OPERATOR);
    let look = || operator.run(&["doctor", "--json"]).parsed();
    assert_eq!(verdict(&look(), "default partition"), "ok");
    // A year for which nobody made a partition.
    let ended = "insert into jobforge.job_history (tenant_id, id, run_at, created_at, finished_at, fence, failures, deaths,
          max_attempts, priority, status, retention, queue, type, payload, source)
        values (gen_random_uuid(), gen_random_uuid(), now(), now(), '2020-01-01', 1, 0, 0, 5, 100, 'succeeded', 'week', 'default',
          'test.noop', '{}', 'manual')";
    for sql in [ended, "select pg_stat_force_next_flush()", "select 1"] {
        admin.batch_execute(sql).await.unwrap();
    }
    let report = look();
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "default partition").unwrap();
    assert_eq!(
        (&check["verdict"], &check["found"]),
        (&"fail".into(), &"job_history_week_default (1 rows)".into())
    );
    assert!(check["advice"].as_str().unwrap().contains("deleted in time"), "{check}");
}

#[tokio::test]
async fn a_superuser_and_an_empty_database_are_named() {
    let db = TestDb::blank().await;
    let dir = tempfile::tempdir().unwrap();
    let sick = jobforge(dir.path()).args(["doctor", "--database-url", &db.super_url()]).output().unwrap();
    let sick = Ran::of(sick);
    assert_eq!(sick.code, 1, "{sick:?}");
    assert!(sick.stdout.contains("FAIL  login") && sick.stdout.contains("is a superuser"), "{sick:?}");
    assert!(sick.stdout.contains("FAIL  schema") && sick.stdout.contains("jobforge migrate"), "{sick:?}");
}

/// Nobody finds a fault where he may not look.
#[tokio::test]
async fn what_a_login_may_not_look_at_is_named_and_not_called_well() {
    let db = TestDb::new().await;
    lead(&db.as_operator().await, "the leader", 600).await.unwrap();
    let admin = db.connect_super().await;
    let stranger = format!("stranger_{}", db.name());
    let make = format!("create role {stranger} login password '{PASSWORD}'");
    admin.batch_execute(&make).await.unwrap();
    // An application may not read what was applied, and a stranger does not even get in to the tables.
    let looks = [(APP, "schema"), (&stranger, "isolation probe")].map(|(login, name)| {
        let cli = Cli::new(&db, login);
        (name, cli.run(&["doctor"]), cli.run(&["doctor", "--json"]))
    });
    admin.batch_execute(&format!("drop role {stranger}")).await.unwrap();
    for (name, told, report) in looks {
        let last = told.stdout.trim_end().lines().last().unwrap();
        assert!(last.starts_with("Not known to be well: "), "{last}");
        assert_eq!((told.code, report.code), (1, 1), "{told:?}");
        let report = report.parsed();
        assert_eq!((report["healthy"].as_bool(), verdict(&report, name)), (Some(false), "skip"));
        let skipped: Vec<&str> =
            report["skipped"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert!(skipped.contains(&name) && skipped.contains(&"scheduler"), "{report}");
        let names = format!("{} checks were skipped: {}.", skipped.len(), skipped.join(", "));
        assert!(last.ends_with(&names), "{last}");
    }
}
