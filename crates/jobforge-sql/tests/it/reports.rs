//! What a job counts for a report: exact where it fits, told as cut where it does not, and refused where it makes no sense.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

use serde_json::{Value, json};

use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{Held, act_for, complete, enqueue_with, fail};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B};

/// Each row but the last as `[key, jobs, waiting, running, succeeded, failed, dead, canceled]`; and whether all is counted.
async fn count(stage: &Stage, job: &Held, more: &str) -> Result<(Value, bool), tokio_postgres::Error> {
    let sql = format!(
        "select coalesce(jsonb_agg(jsonb_build_array(c.key, c.jobs, c.waiting, c.running, c.succeeded, c.failed, c.dead,
           c.canceled)) filter (where c.key is not null), '[]'), bool_or(c.complete)
         from jobforge.count_jobs($1, $2, $3, $4, {more}) as c"
    );
    let arguments: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&job.lease_id, &job.tenant_id, &job.id, &job.fence];
    stage.worker.client().query_one(&sql, &arguments).await.map(|row| (row.get(0), row.get(1)))
}

#[tokio::test]
async fn jobs_are_counted_live_and_over_by_what_they_are_now() {
    let stage = Stage::set().await;
    let reporter = stage.running().await;
    stage.jobs(5).await;
    let runs = stage.claim(4).await;
    complete(stage.worker.client(), &runs[0]).await.unwrap();
    complete(stage.worker.client(), &runs[1]).await.unwrap();
    fail(stage.worker.client(), &runs[2], "permanent").await.unwrap();
    let canceled =
        enqueue_with(stage.app.client(), TENANT_A, OTHER, "'{}', p_queue => 'other'").await.unwrap().0;
    stage
        .app
        .client()
        .query("select from jobforge.cancel_job($1, $2)", &[&TENANT_A, &canceled])
        .await
        .unwrap();
    enqueue_with(stage.other.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    act_for(stage.other.client(), TENANT_A).await.unwrap();
    stage.pass(1.0).await;

    let (by_type, complete) = count(&stage, &reporter, "'type'").await.unwrap();
    assert_eq!(by_type, json!([[NOOP, 6, 1, 2, 2, 1, 0, 0], [OTHER, 1, 0, 0, 0, 0, 0, 1]]));
    assert!(complete);
    let (by_queue, _) = count(&stage, &reporter, "'queue'").await.unwrap();
    assert_eq!(by_queue, json!([["default", 6, 1, 2, 2, 1, 0, 0], ["other", 1, 0, 0, 0, 0, 0, 1]]));
    let (by_status, _) = count(&stage, &reporter, "'status'").await.unwrap();
    let statuses: Vec<_> =
        by_status.as_array().unwrap().iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let wanted = [("canceled", 1), ("failed", 1), ("queued", 1), ("running", 2), ("succeeded", 2)];
    assert_eq!(statuses, wanted.map(|(status, jobs)| (json!(status), json!(jobs))));
}

#[tokio::test]
async fn a_period_is_counted_to_its_end_and_not_beyond() {
    let stage = Stage::set().await;
    stage.db.set_clock(Some("2030-03-01 23:00:00+00")).await;
    stage.jobs(2).await;
    stage.db.set_clock(Some("2030-03-02 01:00:00+00")).await;
    stage.jobs(3).await;
    let reporter = stage.claim(1).await.remove(0);
    stage.lose(1.0).await;
    let jobs = async |more: &str| {
        let (rows, complete) = count(&stage, &reporter, more).await.unwrap();
        assert!(complete, "{more}");
        rows.as_array().unwrap().iter().map(|row| json!([row[0], row[1]])).collect::<Value>()
    };
    assert_eq!(jobs("'day'").await, json!([["2030-03-01", 2], ["2030-03-02", 3]]), "the last day");
    assert_eq!(jobs("'day', p_from => '2030-03-02 00:00:00+00'").await, json!([["2030-03-02", 3]]));
    let ends = "'day', p_from => '2030-03-01 23:00:00+00', p_to => '2030-03-02 01:00:00+00'";
    assert_eq!(jobs(ends).await, json!([["2030-03-01", 2]]), "its beginning belongs to it, its end does not");
    assert_eq!(jobs("'type', p_to => '2030-02-01 00:00:00+00'").await, json!([]));
}

#[tokio::test]
async fn what_is_too_much_to_count_is_cut_and_told() {
    let stage = Stage::set().await;
    let reporter = stage.running().await;
    stage.jobs(2500).await;
    stage.pass(1.0).await;
    let (all, complete) = count(&stage, &reporter, "'type'").await.unwrap();
    assert_eq!((all[0][1].clone(), complete), (json!(2501), true));
    let (some, complete) = count(&stage, &reporter, "'type', p_limit => 1500").await.unwrap();
    assert_eq!((some[0][1].clone(), complete), (json!(2000), false), "a thousand at a time");
    // A slow database: the first thousand takes the whole budget.
    let (some, complete) = count(&stage, &reporter, "'type', p_budget_ms => 1").await.unwrap();
    assert!(!complete && some[0][1].as_i64().unwrap() < 2501, "{some}");
}

#[tokio::test]
async fn what_came_and_went_is_told_as_far_as_it_was_sampled() {
    let stage = Stage::set().await;
    stage.db.set_clock(Some("2030-03-01 10:00:00+00")).await;
    let term = stage.lead("leader").await.unwrap();
    let sample = async || {
        let sql = "select jobforge.sample_stats($1)";
        stage.operator.client().query(sql, &[&term]).await.unwrap();
    };
    sample().await;
    stage.jobs(3).await;
    complete(stage.worker.client(), &stage.claim(1).await[0]).await.unwrap();
    stage.pass(2.0).await;
    sample().await;
    let reporter = stage.claim(1).await.remove(0);
    for (from, complete) in [("10:00:30", true), ("09:59:00", false)] {
        let sql = format!(
            "select array_agg(f.key), sum(f.enqueued)::bigint, sum(f.succeeded)::bigint, bool_or(f.complete)
             from jobforge.count_flow($1, $2, $3, $4, 'hour', '2030-03-01 {from}+00', '2030-03-01 12:00:00+00') as f"
        );
        let arguments: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&reporter.lease_id, &reporter.tenant_id, &reporter.id, &reporter.fence];
        let row = stage.worker.client().query_one(&sql, &arguments).await.unwrap();
        let keys: Vec<Option<String>> = row.get(0);
        assert_eq!(keys, [Some("2030-03-01T10:00Z".to_owned()), None]);
        let told = (row.get::<_, i64>(1), row.get::<_, i64>(2), row.get::<_, bool>(3));
        assert_eq!(told, (3, 1, complete), "{from}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let stage = Stage::set().await;
    let reporter = stage.running().await;
    for (more, reason) in [
        ("'no such'", "group_unknown"),
        ("'hour'", "group_unknown"),
        ("null", "group_unknown"),
        ("'type', p_from => now(), p_to => now()", "range_empty"),
        ("'type', p_from => '-infinity'", "range_out_of_range"),
        ("'type', p_from => '1960-01-01'", "range_out_of_range"),
        ("'type', p_limit => 0", "limit_out_of_range"),
        ("'type', p_budget_ms => 0", "budget_out_of_range"),
    ] {
        let answer = count(&stage, &reporter, more).await;
        assert_eq!(refusal(answer), format!("JF001 {reason}"), "{more}");
    }
    let sql = "select from jobforge.count_flow($1, $2, $3, $4, 'type')";
    let arguments: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&reporter.lease_id, &reporter.tenant_id, &reporter.id, &reporter.fence];
    let answer = stage.worker.client().query(sql, &arguments).await;
    assert_eq!(refusal(answer), "JF001 group_unknown");
}
