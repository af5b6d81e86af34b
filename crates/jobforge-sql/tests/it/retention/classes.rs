//! Finished jobs leave with their partitions, class by class; from a default partition row by row.

use uuid::Uuid;

use super::{Gone, TYPES, at, finish, prune_all, rows_of, stage_of_classes, upkeep};
use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{complete, enqueue, enqueue_many, enqueue_with};
use crate::schema::{NOOP, TENANT_A, TENANT_B};

/// Where nothing of them may be left.
const LEFT_BEHIND: [&str; 8] = [
    "jobs",
    "attempts",
    "job_logs",
    "attempt_exits",
    "job_progress",
    "attempt_history",
    "log_history",
    "exit_history",
];

/// The histories, which are dropped alike.
const HISTORIES: [&str; 4] = ["job_history", "attempt_history", "log_history", "exit_history"];

/// Finished jobs by class, as `day 05 06 | week …` with the days of their end; one of each tenant for each.
async fn left(stage: &Stage, history: &str) -> String {
    let (key, time) =
        if history == "job_history" { ("id", "finished_at") } else { ("job_id", "job_finished_at") };
    let sql = format!(
        "select coalesce(string_agg(c.class || ' ' || c.days, ' | ' order by c.class), '') from (
           select d.class, string_agg(d.day, ' ' order by d.day) as days from (
             select h.retention as class, to_char(h.{time} at time zone 'UTC', 'DD') as day
             from jobforge.{history} h group by 1, 2
             having count(distinct (h.tenant_id, h.{key})) = 2) as d
           group by d.class) as c"
    );
    stage.admin.query_one(&sql, &[]).await.unwrap().get(0)
}

/// The partitions of the days in which jobs were finished that are still there, without what comes ahead.
async fn leaves(stage: &Stage, history: &str) -> String {
    let sql = "select coalesce(string_agg(w.leaf, ' ' order by w.at), '')
        from unnest(array['day_20310305', 'day_20310306', 'day_20310311', 'week_20310305', 'week_20310306', 'week_20310311',
          'month_20310303', 'month_20310310', 'year_20310301']) with ordinality as w(leaf, at)
        where to_regclass('jobforge.' || $1::text || '_' || w.leaf) is not null";
    stage.admin.query_one(sql, &[&history]).await.unwrap().get(0)
}

#[tokio::test]
async fn exactly_the_rows_past_their_class_leave_and_with_their_partitions() {
    let stage = stage_of_classes().await;
    // A Wednesday, a Thursday, and the Tuesday after.
    let ends = ["2031-03-05 10:00", "2031-03-06 10:00", "2031-03-11 10:00"];
    let checks = [
        // Within their time, and up to a step longer.
        (
            "2031-03-07 00:00:00",
            "day 05 06 | month 05 06 | week 05 06 | year 05 06",
            "day_20310305 day_20310306",
        ),
        ("2031-03-07 00:00:01", "day 06 | month 05 06 | week 05 06 | year 05 06", "day_20310306"),
        ("2031-03-11 12:00:00", "day 11 | month 05 06 11 | week 05 06 11 | year 05 06 11", "day_20310311"),
        ("2031-03-13 00:00:01", "month 05 06 11 | week 06 11 | year 05 06 11", "week_20310306 week_20310311"),
        ("2031-03-14 00:00:01", "month 05 06 11 | week 11 | year 05 06 11", "week_20310311"),
        ("2031-03-19 00:00:01", "month 05 06 11 | year 05 06 11", "month_20310303 month_20310310"),
        ("2031-04-10 00:00:00", "month 05 06 11 | year 05 06 11", "month_20310303 month_20310310"),
        ("2031-04-10 00:00:01", "month 11 | year 05 06 11", "month_20310310"),
        ("2031-04-17 00:00:01", "year 05 06 11", "year_20310301"),
        ("2032-04-01 00:00:00", "year 05 06 11", "year_20310301"),
        ("2032-04-01 00:00:01", "", ""),
    ];
    let mut finished: Vec<Uuid> = Vec::new();
    let mut ends = ends.into_iter().peekable();
    for (time, rows, first_leaves) in checks {
        while let Some(end) = ends.next_if(|end| *end < time) {
            at(&stage, end).await;
            upkeep(&stage).await;
            for kind in TYPES {
                for tenant in [TENANT_A, TENANT_B] {
                    finished.push(finish(&stage, tenant, kind).await);
                }
            }
        }
        at(&stage, time).await;
        assert_eq!(upkeep(&stage).await, 0, "{time}: nobody is in the way");
        let gone = prune_all(&stage, 1000).await;
        assert_eq!((gone.history, gone.orphans), (0, 0), "{time}: dated rows leave with their partition");
        for history in HISTORIES {
            assert_eq!(left(&stage, history).await, rows, "{history} at {time}");
            let leaves = leaves(&stage, history).await;
            assert!(leaves.starts_with(first_leaves), "{history} at {time}: {leaves}");
            assert_eq!(leaves.is_empty(), first_leaves.is_empty(), "{history} at {time}: {leaves}");
        }
    }
    assert_eq!(finished.len(), 24);
    for table in LEFT_BEHIND {
        assert_eq!(rows_of(&stage, table, &finished).await, 0, "{table}");
    }
}

/// Without upkeep the jobs end in default partitions: they stay as long as they would have in dated ones.
#[tokio::test]
async fn rows_of_a_default_partition_leave_one_by_one_past_their_class() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    for kind in TYPES {
        for tenant in [TENANT_A, TENANT_B] {
            finish(&stage, tenant, kind).await;
        }
    }
    let in_defaults =
        "select count(*) from jobforge.job_history where tableoid::regclass::text like '%_default'";
    assert_eq!(stage.count(in_defaults).await, 8);
    for (time, rows) in [
        ("2031-03-07 10:00:00", "day 05 | month 05 | week 05 | year 05"),
        ("2031-03-07 10:00:01", "month 05 | week 05 | year 05"),
        ("2031-03-13 10:00:00", "month 05 | week 05 | year 05"),
        ("2031-03-13 10:00:01", "month 05 | year 05"),
        ("2031-04-12 10:00:00", "month 05 | year 05"),
        ("2031-04-12 10:00:01", "year 05"),
        // 366 days and a month, counted back.
        ("2032-04-05 10:00:00", "year 05"),
        ("2032-04-05 10:00:01", ""),
    ] {
        at(&stage, time).await;
        let gone = prune_all(&stage, 1).await;
        assert_eq!(gone.history, if time.ends_with('1') { 2 } else { 0 }, "at {time}: {gone:?}");
        for history in HISTORIES {
            assert_eq!(left(&stage, history).await, rows, "{history} at {time}");
        }
    }
}

#[tokio::test]
async fn a_partition_that_somebody_holds_is_not_emptied_row_by_row_meanwhile() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    upkeep(&stage).await;
    finish(&stage, TENANT_A, "keep.day").await;
    let reader = stage.db.session().await;
    reader.run("begin; lock table jobforge.job_history_day_20310305 in access share mode").await;
    at(&stage, "2031-03-20 10:00").await;
    assert!(upkeep(&stage).await > 0, "the reader is in the way");
    assert_eq!(prune_all(&stage, 1000).await, Gone::default());
    let there = "select count(*) from jobforge.job_history_day_20310305";
    assert_eq!(stage.count(there).await, 1);
    // Completions of the same class go on beside the reader and beside an upkeep that asks again and again.
    let job = super::held(&stage, TENANT_A, "keep.day").await;
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
    reader.commit().await;
    assert_eq!(upkeep(&stage).await, 0);
    assert_eq!(stage.count("select count(to_regclass('jobforge.job_history_day_20310305'))").await, 0);
}

/// A session's own days have 23 or 25 hours twice a year; the partitions' have not.
#[tokio::test]
async fn partitions_begin_at_midnight_whatever_the_sessions_time_zone() {
    let stage = stage_of_classes().await;
    stage.operator.run("set timezone = 'Europe/Berlin'").await;
    for time in ["2031-03-25 10:00", "2031-10-20 10:00"] {
        at(&stage, time).await;
        assert_eq!(upkeep(&stage).await, 0, "{time}");
    }
    let sql = "select count(*) from pg_class c where c.relnamespace = 'jobforge'::regnamespace
               and c.relispartition and c.relname ~ '_2031[0-9]{4}$'
               and pg_get_expr(c.relpartbound, c.oid) !~ ' 00:00:00\\+00''\\) TO \\(''.* 00:00:00\\+00''\\)$'";
    stage.admin.batch_execute("set timezone = 'UTC'").await.unwrap();
    assert_eq!(stage.count(sql).await, 0);
    assert_eq!(stage.count("select count(to_regclass('jobforge.job_history_week_20311026'))").await, 1);
}

/// By each way in: alone, in a batch, with a key.
#[tokio::test]
async fn a_job_is_made_with_its_tenants_class() {
    let stage = stage_of_classes().await;
    let own = "select jobforge.upsert_tenant($1, p_retention => 'year')";
    stage.operator.query(own, &[&TENANT_A]).await.unwrap();
    for (tenant, wanted) in [(TENANT_A, "year"), (TENANT_B, "day")] {
        enqueue(stage.app.client(), tenant, "keep.day", serde_json::json!({})).await.unwrap();
        enqueue_many(stage.app.client(), tenant, "keep.day", 2).await.unwrap();
        enqueue_with(stage.app.client(), tenant, "keep.day", "'{}', p_idempotency_key => 'k'").await.unwrap();
        assert_eq!(classes_of(&stage, tenant).await, (vec![wanted.to_owned()], 4));
    }
    let none = "select jobforge.upsert_tenant($1, p_clear => '{retention}')";
    stage.operator.query(none, &[&TENANT_A]).await.unwrap();
    enqueue(stage.app.client(), TENANT_A, "keep.day", serde_json::json!({})).await.unwrap();
    assert_eq!(classes_of(&stage, TENANT_A).await, (vec!["day".to_owned(), "year".to_owned()], 5));
}

async fn classes_of(stage: &Stage, tenant: Uuid) -> (Vec<String>, i64) {
    let sql = "select array_agg(distinct retention order by retention), count(*) from jobforge.jobs where tenant_id = $1";
    let row = stage.admin.query_one(sql, &[&tenant]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_class_that_is_not_known_is_refused_and_changes_nothing() {
    let stage = stage_of_classes().await;
    for sql in [
        "select jobforge.upsert_definition('keep.day', p_retention => 'decade')",
        "select jobforge.upsert_definition('keep.day', p_dead_retention => 'decade')",
    ] {
        assert_eq!(refusal(stage.operator.query(sql, &[]).await), "JF001 definition_out_of_range");
    }
    let tenant = format!("select jobforge.upsert_tenant('{TENANT_A}', p_retention => 'decade')");
    assert_eq!(refusal(stage.operator.query(&tenant, &[]).await), "JF001 tenant_out_of_range");
    let kept = "select count(*) from jobforge.definitions where key = 'keep.day' and (retention, dead_retention) = ('day', 'day')";
    assert_eq!(stage.count(kept).await, 1);
    assert_eq!(stage.count("select count(*) from jobforge.tenants where retention is not null").await, 0);
    enqueue(stage.app.client(), TENANT_A, NOOP, serde_json::Value::Null).await.unwrap();
}
