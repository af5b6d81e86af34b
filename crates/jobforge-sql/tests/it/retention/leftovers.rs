//! Keys a day past their job, notes that a fault left without one, and operations of long ago.

use uuid::Uuid;

use super::{Gone, at, claim_one, die, held, note, prune, prune_all, rows_of, stage_of_classes};
use crate::races::stage::Stage;
use crate::schema::calls::{act_for, complete, enqueue_with};
use crate::schema::{OPERATOR, TENANT_A, TENANT_B};

async fn keyed(stage: &Stage, kind: &str, key: &str) -> Uuid {
    let extra = format!("'{{}}', p_idempotency_key => '{key}'");
    enqueue_with(stage.app.client(), TENANT_A, kind, &extra).await.unwrap().0
}

async fn keys(stage: &Stage) -> String {
    let sql = "select coalesce(string_agg(key, ' ' order by key), '') from jobforge.idempotency_keys";
    stage.admin.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_key_lives_as_long_as_its_job_and_a_day_longer() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    for (kind, key) in [("keep.year", "done"), ("keep.week", "waits"), ("keep.day", "dies")] {
        keyed(&stage, kind, key).await;
    }
    at(&stage, "2031-03-08 10:00").await;
    assert_eq!(prune_all(&stage, 1000).await.keys, 0, "their jobs live");
    let done = claim_one(&stage, "keep.year").await;
    complete(stage.worker.client(), &done).await.unwrap();
    let dead = claim_one(&stage, "keep.day").await;
    crate::schema::calls::fail(stage.worker.client(), &dead, "permanent").await.unwrap();
    for (time, left) in [
        ("2031-03-09 09:59:59", "dies done waits"),
        // The job itself stays in the history for a year.
        ("2031-03-09 10:00:00", "dies waits"),
        // A dead letter can be retried: its key stays with it, and leaves with it.
        ("2031-03-09 10:00:01", "waits"),
        ("2033-01-01 10:00:00", "waits"),
    ] {
        at(&stage, time).await;
        prune_all(&stage, 1000).await;
        assert_eq!(keys(&stage).await, left, "at {time}");
    }
    let (id, existing) =
        enqueue_with(stage.app.client(), TENANT_A, "keep.week", "'{}', p_idempotency_key => 'waits'")
            .await
            .unwrap();
    assert!(existing && rows_of(&stage, "jobs", &[id]).await == 1);
}

/// Keys of jobs that live are stepped over, also a batch of them with one time.
#[tokio::test]
async fn keys_that_stay_do_not_stop_those_behind_them() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    let batch = "select count(*) from jobforge.enqueue_jobs($1, array_fill('keep.week'::text, array[20]),
        array_fill('{}'::jsonb, array[20]), p_idempotency_keys => (select array_agg('b' || n) from generate_series(1, 20) as n))";
    stage.app.query(batch, &[&TENANT_A]).await.unwrap();
    stage.lose(1.0).await;
    keyed(&stage, "keep.day", "behind").await;
    let job = claim_one(&stage, "keep.day").await;
    complete(stage.worker.client(), &job).await.unwrap();
    at(&stage, "2031-03-08 10:00").await;
    let (gone, more, next) = prune(&stage, 3, None).await;
    assert_eq!((gone.keys, more), (0, true));
    let (gone, _, _) = prune(&stage, 3, Some(next)).await;
    assert_eq!(gone.keys, 1);
    assert_eq!(stage.count("select count(*) from jobforge.idempotency_keys").await, 20);
}

/// A fault behind the functions' back: the job is gone, what stood beside it is not.
#[tokio::test]
async fn notes_without_a_job_are_found_and_deleted_and_no_others() {
    let stage = stage_of_classes().await;
    let (mut lost, mut kept) = (Vec::new(), Vec::new());
    for tenant in [TENANT_A, TENANT_B] {
        for n in 0..4 {
            let id = die(&stage, tenant, "keep.year").await;
            if n % 2 == 0 { lost.push(id) } else { kept.push(id) }
        }
    }
    let running = held(&stage, TENANT_A, "keep.day").await;
    note(&stage, &running).await;
    stage.meddle("delete from jobforge.jobs where id = any ($1)", &[&lost]).await;

    // Two jobs' notes a call, from where the last one stopped.
    let (mut found, mut after) = (0, None);
    for _ in 0..6 {
        let (gone, _, next) = prune(&stage, 2, after).await;
        assert!(gone.orphans <= 8, "{gone:?}");
        found += gone.orphans;
        after = Some(next);
    }
    assert_eq!(found, 16, "an attempt, a log line, a program's end and a progress of each");
    for table in ["attempts", "job_logs", "attempt_exits", "job_progress"] {
        assert_eq!(rows_of(&stage, table, &lost).await, 0, "{table}");
        assert_eq!(rows_of(&stage, table, &kept).await, 4, "{table}");
    }
    assert_eq!(rows_of(&stage, "job_progress", &[running.id]).await, 1);
    assert_eq!(prune_all(&stage, 1000).await, Gone::default());
}

/// Longer than any job that they are about.
#[tokio::test]
async fn operations_leave_after_400_days_with_what_they_noted() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    let letter = die(&stage, TENANT_A, "keep.year").await;
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    let redrive = "select verdict from jobforge.redrive_jobs($1, array[$2::uuid])";
    stage.app.query(redrive, &[&TENANT_A, &letter]).await.unwrap();
    let left = "select (select count(*) from jobforge.bulk_operations) + (select count(*) from jobforge.bulk_results)";
    for (time, wanted) in [("2032-04-08 10:00:00", 2), ("2032-04-08 10:00:01", 0)] {
        at(&stage, time).await;
        prune_all(&stage, 1000).await;
        assert_eq!(stage.count(left).await, wanted, "at {time}");
    }
    assert_eq!(stage.told(letter).await, "queued 1/0/0", "the job itself stays");
}

/// Claims take a longer way while there is any.
#[tokio::test]
async fn a_pause_that_ran_out_leaves_and_the_others_stay() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    for (name, until) in
        [("endless", "null"), ("short", "'2031-03-05 11:00Z'"), ("long", "'2031-03-05 12:00Z'")]
    {
        stage.operate(&format!("select jobforge.pause('queue', '{name}', p_until => {until})")).await;
    }
    let left = "select string_agg(name, ' ' order by name) from jobforge.pauses";
    for (time, wanted) in
        [("2031-03-05 10:59:59", "endless long short"), ("2031-03-05 11:00:00", "endless long")]
    {
        at(&stage, time).await;
        prune_all(&stage, 1000).await;
        assert_eq!(stage.admin.query_one(left, &[]).await.unwrap().get::<_, String>(0), wanted, "at {time}");
    }
}

#[tokio::test]
async fn a_prune_does_not_wait_for_whoever_sets_a_pause_again() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    for name in ["held", "free"] {
        let pause = format!("select jobforge.pause('queue', '{name}', p_until => '2031-03-05 11:00Z')");
        stage.operate(&pause).await;
    }
    at(&stage, "2031-03-05 12:00").await;
    let second = stage.db.session_at(&stage.db.url_as(OPERATOR, None)).await;
    second.begin().await;
    second.query("select jobforge.pause('queue', 'held')", &[]).await.unwrap();
    // What would wait is an error.
    stage.operate("set lock_timeout = '2s'").await;
    prune_all(&stage, 1000).await;
    second.commit().await;
    let left =
        "select string_agg(name || ' ' || coalesce(until::text, 'endless'), ', ') from jobforge.pauses";
    assert_eq!(stage.admin.query_one(left, &[]).await.unwrap().get::<_, String>(0), "held endless");
}

#[tokio::test]
async fn the_audit_log_reaches_a_year_back() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    for name in ["a", "b", "c"] {
        stage.operate(&format!("select jobforge.pause('queue', '{name}')")).await;
    }
    let left = "select count(*) from jobforge.audit_log where action = 'pause'";
    for (time, wanted) in [("2032-03-04 10:00:00", 3), ("2032-03-04 10:00:01", 0)] {
        at(&stage, time).await;
        // The log of the stage's own making is older.
        prune_all(&stage, 1000).await;
        assert_eq!(stage.count(left).await, wanted, "at {time}");
    }
    for name in ["a", "b", "c"] {
        stage.operate(&format!("select jobforge.pause('queue', '{name}')")).await;
    }
    at(&stage, "2034-01-01 10:00").await;
    let (_, more, _) = prune(&stage, 2, None).await;
    assert!(more, "two of three are gone");
    assert_eq!(stage.count(left).await, 1);
}
