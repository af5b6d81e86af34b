//! Dead letters stay until their own class's time is over, and then leave with their attempts, logs and progress.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::{Gone, TYPES, at, die, finish, note, prune, prune_all, rows_of, stage_of_classes};
use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{act_for, enqueue};
use crate::schema::{TENANT_A, TENANT_B};

/// What stands beside a live job or a dead letter.
const NOTES: [&str; 4] = ["attempts", "job_logs", "attempt_exits", "job_progress"];

/// The system's own tenant has the smallest id there is.
const GLOBAL: Uuid = Uuid::nil();

#[tokio::test]
async fn dead_letters_leave_by_their_class_with_all_that_stands_beside_them() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    let mut letters = Vec::new();
    for kind in TYPES {
        for tenant in [TENANT_A, TENANT_B, GLOBAL] {
            letters.push(die(&stage, tenant, kind).await);
        }
    }
    // As old as they are, and alive or over otherwise.
    let waiting = enqueue(stage.app.client(), TENANT_A, "keep.day", Value::Null).await.unwrap();
    let canceled = enqueue(stage.app.client(), TENANT_A, "keep.year", Value::Null).await.unwrap();
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &canceled]).await.unwrap();

    for (time, left) in [
        ("2031-03-06 10:00:00", 4),
        ("2031-03-06 10:00:01", 3),
        ("2031-03-12 10:00:00", 3),
        ("2031-03-12 10:00:01", 2),
        ("2031-04-05 10:00:00", 2),
        ("2031-04-05 10:00:01", 1),
        ("2032-03-05 10:00:00", 1),
        ("2032-03-05 10:00:01", 0),
    ] {
        at(&stage, time).await;
        let gone = prune_all(&stage, 1000).await;
        assert_eq!(gone.dead_letters, if time.ends_with('1') { 3 } else { 0 }, "at {time}");
        // The shortest classes go first: what is left are the last ones of the list.
        let kept = &letters[(4 - left) * 3..];
        for table in ["jobs", "attempts", "job_logs", "attempt_exits", "job_progress"] {
            let wanted = i64::try_from(kept.len()).unwrap();
            assert_eq!(rows_of(&stage, table, kept).await, wanted, "{table} at {time}");
            assert_eq!(rows_of(&stage, table, &letters).await, wanted, "{table} at {time}");
        }
        assert_eq!(rows_of(&stage, "jobs", &[waiting]).await, 1);
        assert_eq!(gone.orphans, 0, "nothing is left behind to be found");
    }
    assert_eq!(rows_of(&stage, "job_history", &[canceled]).await, 1, "a canceled one is history, not dead");
}

/// Each call looks at no more than its limit; where it stopped the next one goes on, also behind letters that stay.
#[tokio::test]
async fn a_call_is_bounded_and_the_next_one_goes_on_behind_it() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    let mut gone_ids = Vec::new();
    let mut kept_ids = Vec::new();
    for tenant in [TENANT_B, TENANT_A, GLOBAL] {
        for n in 0..6 {
            let kind = if n % 2 == 0 { "keep.year" } else { "keep.day" };
            let id = die(&stage, tenant, kind).await;
            if n % 2 == 0 {
                kept_ids.push(id);
            } else {
                gone_ids.push(id);
            }
            stage.lose(1.0).await;
        }
    }
    at(&stage, "2031-03-07 10:00").await;
    let (mut after, mut calls, mut positions) = (None, 0, BTreeSet::new());
    loop {
        let (gone, more, next) = prune(&stage, 2, after).await;
        assert!(gone.dead_letters <= 2, "{gone:?}");
        calls += 1;
        if !more {
            break;
        }
        assert!(positions.insert(next.to_string()), "it goes on and not round: {next}");
        after = Some(next);
    }
    assert!(calls > 9, "18 letters of three tenants in {calls} calls of two");
    assert_eq!(rows_of(&stage, "jobs", &gone_ids).await, 0);
    assert_eq!(rows_of(&stage, "jobs", &kept_ids).await, 9);
    for table in NOTES {
        assert_eq!(rows_of(&stage, table, &gone_ids).await, 0, "{table}");
        assert_eq!(rows_of(&stage, table, &kept_ids).await, 9, "{table}");
    }
}

/// A job has thousands of log lines: a call ends when it has deleted a hundred for each job that it may look at.
#[tokio::test]
async fn many_notes_end_a_call_early() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    for _ in 0..3 {
        let id = die(&stage, TENANT_A, "keep.day").await;
        let more = "insert into jobforge.job_logs (tenant_id, job_id, number, line_no, at, level, message)
                    select tenant_id, job_id, number, n, at, level, message
                    from jobforge.job_logs cross join generate_series(2, 500) as n where job_id = $1";
        stage.admin.execute(more, &[&id]).await.unwrap();
    }
    at(&stage, "2031-03-07 10:00").await;
    let (gone, more, _) = prune(&stage, 4, None).await;
    assert_eq!((gone.dead_letters, more), (1, true));
    assert_eq!(stage.count("select count(*) from jobforge.job_logs").await, 1000);
    assert_eq!(prune_all(&stage, 4).await.dead_letters, 2);
    assert_eq!(stage.count("select count(*) from jobforge.job_logs").await, 0);
}

/// Whoever is retrying a letter is not waited for, and wins.
#[tokio::test]
async fn a_letter_that_somebody_is_retrying_stays() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    let held = die(&stage, TENANT_A, "keep.day").await;
    let free = die(&stage, TENANT_A, "keep.day").await;
    at(&stage, "2031-03-07 10:00").await;
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    stage.app.begin().await;
    stage.app.query("select * from jobforge.retry_job($1, $2)", &[&TENANT_A, &held]).await.unwrap();
    stage.operator.run("set lock_timeout = '10s'").await;
    assert_eq!(prune_all(&stage, 1000).await, Gone { dead_letters: 1, ..Gone::default() });
    assert_eq!((rows_of(&stage, "jobs", &[held]).await, rows_of(&stage, "jobs", &[free]).await), (1, 0));
    stage.app.commit().await;
    assert_eq!(prune_all(&stage, 1000).await, Gone::default(), "it lives again");
    assert_eq!(stage.told(held).await, "queued 1/0/0");
    for table in NOTES {
        assert_eq!(rows_of(&stage, table, &[held]).await, 1, "{table}");
    }
}

/// Two leaders at once: the second passes by what the first is deleting, waits for the keys, and finds nothing left.
#[tokio::test]
async fn two_prunes_at_once_delete_each_letter_once() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    let letters = [die(&stage, TENANT_A, "keep.day").await, die(&stage, TENANT_B, "keep.day").await];
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    let keyed = "select id from jobforge.enqueue_job($1, 'keep.day', p_idempotency_key => 'k')";
    let keyed: Uuid = stage.app.query(keyed, &[&TENANT_A]).await.unwrap()[0].get(0);
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &keyed]).await.unwrap();
    at(&stage, "2031-03-07 10:00").await;
    let term = stage.lead("leader").await.unwrap();
    let sql = "select dead_letters, keys from jobforge.prune($1)";
    let counts = |rows: &[tokio_postgres::Row]| (rows[0].get::<_, i32>(0), rows[0].get::<_, i32>(1));
    stage.operator.begin().await;
    assert_eq!(counts(&stage.operator.query(sql, &[&term]).await.unwrap()), (2, 1));
    let second = stage.db.session_at(&stage.db.url_as(crate::schema::OPERATOR, None)).await;
    let second = second.spawn_blocked(sql, vec![Box::new(term)]).await;
    stage.operator.commit().await;
    assert_eq!(counts(&second.finish().await.1.unwrap()), (0, 0));
    assert_eq!(rows_of(&stage, "jobs", &letters).await, 0);
}

#[tokio::test]
async fn a_change_of_the_class_counts_for_letters_that_are_there() {
    let stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    die(&stage, TENANT_A, "keep.year").await;
    at(&stage, "2031-03-20 10:00").await;
    assert_eq!(prune_all(&stage, 1000).await.dead_letters, 0);
    let sql = "select jobforge.upsert_definition('keep.year', p_dead_retention => 'week')";
    stage.operator.query(sql, &[]).await.unwrap();
    assert_eq!(prune_all(&stage, 1000).await.dead_letters, 1);
}

#[tokio::test]
async fn a_position_that_is_none_is_refused_and_nothing_is_deleted() {
    let stage: Stage = stage_of_classes().await;
    at(&stage, "2031-03-05 10:00").await;
    let id = die(&stage, TENANT_A, "keep.day").await;
    finish(&stage, TENANT_A, "keep.day").await;
    at(&stage, "2031-03-20 10:00").await;
    let term = stage.lead("leader").await.unwrap();
    let sql = "select * from jobforge.prune($1, 10, $2)";
    for malformed in
        [json!({ "dead_tenant": "nobody" }), json!({ "key_at": "soon" }), json!({ "note_job": 1 })]
    {
        let call = stage.operator.query(sql, &[&term, &Json(&malformed)]).await;
        assert_eq!(refusal(call), "JF001 position_malformed", "{malformed}");
    }
    for (limit, wanted) in [(0, "JF001 limit_out_of_range"), (10_001, "JF001 limit_out_of_range")] {
        let call = stage.operator.query("select * from jobforge.prune($1, $2)", &[&term, &limit]).await;
        assert_eq!(refusal(call), wanted);
    }
    let call = stage.operator.query("select * from jobforge.prune($1)", &[&(term - 1)]).await;
    assert_eq!(refusal(call), "JF006 term_over");
    assert_eq!(rows_of(&stage, "jobs", &[id]).await, 1);
    let job = super::held(&stage, TENANT_A, "keep.day").await;
    note(&stage, &job).await;
}
