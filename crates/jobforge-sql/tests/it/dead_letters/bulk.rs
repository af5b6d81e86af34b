//! Operations on many jobs: counted, done in steps, told, undone; and what is refused.

use serde_json::json;
use uuid::Uuid;

use crate::races::stage::{Stage, refusal};
use crate::schema::TENANT_A;
use crate::schema::calls::{complete, enqueue_with, release};

const ALL_DEAD: &str = r#"'redrive', '{"statuses": ["failed", "dead"]}'"#;

async fn dead_letters(stage: &Stage, count: usize) -> Vec<Uuid> {
    let mut dead = Vec::new();
    for _ in 0..count {
        dead.push(stage.dead().await);
    }
    dead
}

/// How many jobs of tenant A have each status, e.g. `failed 2, queued 1`.
async fn statuses(stage: &Stage) -> String {
    let sql = "select string_agg(status || ' ' || n, ', ' order by status) from (
        select status, count(*) as n from (select status from jobforge.jobs union all select status from jobforge.job_history) as j
        group by status) as s";
    stage.admin.query_one(sql, &[]).await.unwrap().get::<_, Option<String>>(0).unwrap_or_default()
}

#[tokio::test]
async fn a_redrive_is_counted_and_done_in_steps() {
    let stage = Stage::set().await;
    let dead = dead_letters(&stage, 5).await;
    let operation = stage.start(&format!("{ALL_DEAD}, p_reason => 'fixed'")).await.unwrap();
    // What dies once it has started is not its business.
    let late = {
        stage.pass(1.0).await;
        stage.dead().await
    };
    let sql = "select kind, status, matched, matched_capped, reason, filter from jobforge.get_bulk($1, $2)";
    let row = &stage.app.query(sql, &[&TENANT_A, &operation]).await.unwrap()[0];
    let told: (String, String, i64, bool) = (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!(told, ("redrive".into(), "running".into(), 5, false));
    assert_eq!(stage.step(operation, 2).await, "running 2/0 0/0");
    assert_eq!(stage.told(dead[2]).await, "failed 1/1/0", "the oldest first");
    assert_eq!(stage.step(operation, 2).await, "running 4/0 0/0");
    assert_eq!(stage.step(operation, 2).await, "finished 5/0 0/0");
    assert_eq!(stage.step(operation, 2).await, "finished 5/0 0/0", "once more changes nothing");
    assert_eq!(statuses(&stage).await, "failed 1, queued 5");
    assert_eq!(stage.told(late).await, "failed 1/1/0");
    let results = stage.results(operation).await;
    assert_eq!(results.len(), 5);
    assert!(results.iter().all(|(_, told)| told == "redriven"));
    let sql =
        "select action from jobforge.audit_log where detail ->> 'operation_id' = $1::text order by action";
    let rows = stage.admin.query(sql, &[&operation.to_string()]).await.unwrap();
    let actions: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(actions, ["finish_bulk", "start_bulk"]);
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let stage = Stage::set().await;
    dead_letters(&stage, 3).await;
    let operation = stage.start(&format!("{ALL_DEAD}, p_dry_run => true")).await.unwrap();
    let sql = "select status, matched, dry_run from jobforge.get_bulk($1, $2)";
    let row = &stage.app.query(sql, &[&TENANT_A, &operation]).await.unwrap()[0];
    assert_eq!(
        (row.get::<_, String>(0), row.get::<_, i64>(1), row.get::<_, bool>(2)),
        ("finished".into(), 3, true)
    );
    assert_eq!(stage.step(operation, 10).await, "finished 0/0 0/0");
    assert_eq!(statuses(&stage).await, "failed 3");
    assert_eq!(refusal(stage.undo(operation, 10).await), "JF008 bulk_not_undoable");
}

#[tokio::test]
async fn every_key_of_a_filter_chooses() {
    let stage = Stage::set().await;
    let first = stage.dead_with("'{}', p_tags => '[\"red\"]'", "permanent", "user 1 not found").await;
    stage.pass(60.0).await;
    let second = stage.dead_with("'{}', p_max_attempts => 1", "retryable", "disk full").await;
    let time = |seconds: f64| format!("(to_timestamp({seconds})::text)");
    let (now, print) = (stage.now().await, {
        let sql = "select fingerprint from jobforge.list_dead_letters($1) where id = $2";
        stage.app.query(sql, &[&TENANT_A, &first]).await.unwrap()[0].get::<_, String>(0)
    });
    for (filter, wanted) in [
        ("jsonb_build_object('statuses', array['failed'])".to_owned(), vec![first]),
        ("jsonb_build_object('statuses', array['dead'])".to_owned(), vec![second]),
        ("jsonb_build_object('type', 'test.noop')".to_owned(), vec![first, second]),
        ("jsonb_build_object('type', 'test.other')".to_owned(), vec![]),
        ("jsonb_build_object('queue', 'default')".to_owned(), vec![first, second]),
        ("jsonb_build_object('queue', 'elsewhere')".to_owned(), vec![]),
        ("jsonb_build_object('tag', 'red')".to_owned(), vec![first]),
        (format!("jsonb_build_object('fingerprint', '{print}')"), vec![first]),
        (format!("jsonb_build_object('created_after', {})", time(now)), vec![second]),
        (format!("jsonb_build_object('created_before', {})", time(now)), vec![first]),
        (format!("jsonb_build_object('finished_after', {})", time(now)), vec![second]),
        (format!("jsonb_build_object('finished_before', {})", time(now)), vec![first]),
        (format!("jsonb_build_object('finished_before', {}, 'tag', 'blue')", time(now)), vec![]),
    ] {
        let operation = stage.start(&format!("'redrive', {filter}")).await.unwrap();
        stage.step(operation, 10).await;
        let mut done: Vec<Uuid> = stage.results(operation).await.into_iter().map(|(id, _)| id).collect();
        done.sort_unstable();
        assert_eq!(done, wanted, "{filter}");
        stage.undo(operation, 10).await.unwrap();
    }
    assert_eq!(statuses(&stage).await, "dead 1, failed 1");
}

#[tokio::test]
async fn a_filters_times_are_those_of_who_began_wherever_it_is_done() {
    let stage = Stage::set().await;
    dead_letters(&stage, 1).await;
    stage.app.run("set timezone = 'UTC'").await;
    // An hour from now, told without a zone: nine hours ago for whoever reads it in Tokyo.
    let sql = "select jobforge.start_bulk($1, 'cancel', jsonb_build_object('created_before',
        to_char(jobforge.clock() + interval '1 hour', 'YYYY-MM-DD HH24:MI:SS')))";
    let sql = format!("select (b).id, (b).matched from ({sql} as b) as s");
    let row = &stage.app.query(&sql, &[&TENANT_A]).await.unwrap()[0];
    assert_eq!(row.get::<_, i64>(1), 1);
    stage.app.run("set timezone = 'Asia/Tokyo'").await;
    assert_eq!(stage.step(row.get(0), 10).await, "finished 1/0 0/0");
}

#[tokio::test]
async fn what_is_no_filter_is_refused_and_starts_nothing() {
    let stage = Stage::set().await;
    for (arguments, reason) in [
        ("'redrive', null", "JF001 filter_malformed"),
        ("'redrive', '[]'", "JF001 filter_malformed"),
        ("'redrive', '{}'", "JF001 filter_empty"),
        (r#"'redrive', '{"colour": "red"}'"#, "JF001 filter_unknown"),
        (r#"'redrive', '{"job_ids": []}'"#, "JF001 filter_unknown"),
        (r#"'redrive', '{"type": null}'"#, "JF001 filter_malformed"),
        (r#"'redrive', '{"type": ["a"]}'"#, "JF001 filter_malformed"),
        (r#"'redrive', '{"statuses": "failed"}'"#, "JF001 filter_malformed"),
        (r#"'redrive', '{"statuses": []}'"#, "JF001 status_unknown"),
        (r#"'redrive', '{"statuses": [null]}'"#, "JF001 status_unknown"),
        (r#"'redrive', '{"statuses": ["queued"]}'"#, "JF001 status_unknown"),
        (r#"'cancel', '{"statuses": ["succeeded"]}'"#, "JF001 status_unknown"),
        (r#"'cancel', '{"statuses": [["failed"], ["dead"]]}'"#, "JF001 status_unknown"),
        (r#"'redrive', '{"created_after": "yesterday-ish"}'"#, "JF001 filter_malformed"),
        (r#"'remove', '{"type": "a"}'"#, "JF001 kind_unknown"),
        (r#"null, '{"type": "a"}'"#, "JF001 kind_unknown"),
        (r#"'cancel', '{"type": "a"}', p_max_attempts => 3"#, "JF001 redrive_only"),
        (r#"'cancel', '{"type": "a"}', p_patch => '[{"op": "remove", "path": "/a"}]'"#, "JF001 redrive_only"),
        (r#"'redrive', '{"type": "a"}', p_patch => '{}'"#, "JF001 patch_malformed"),
        (r#"'redrive', '{"type": "a"}', p_max_attempts => 0"#, "JF001 max_attempts_out_of_range"),
        (r#"'redrive', '{"type": "a"}', repeat('x', 501)"#, "JF001 reason_length"),
    ] {
        assert_eq!(refusal(stage.start(arguments).await), reason, "{arguments}");
    }
    assert_eq!(stage.count("select count(*) from jobforge.bulk_operations").await, 0);
}

#[tokio::test]
async fn an_undo_keeps_what_has_started() {
    let stage = Stage::set().await;
    let begun = stage.dead().await;
    let given_back = stage.dead().await;
    let done = stage.dead().await;
    stage.pass(5.0).await;
    let operation = stage.start(ALL_DEAD).await.unwrap();
    assert_eq!(stage.step(operation, 10).await, "finished 3/0 0/0");
    let held = stage.claim(3).await;
    let of = |id: Uuid| held.iter().find(|job| job.id == id).unwrap();
    complete(stage.worker.client(), of(done)).await.unwrap();
    release(stage.worker.client(), of(given_back)).await.unwrap();
    let running = of(begun).clone();
    assert_eq!(stage.undo(operation, 1).await.unwrap(), "undoing 3/0 0/1", "one at a time");
    release(stage.worker.client(), &running).await.unwrap();
    assert_eq!(stage.undo(operation, 10).await.unwrap(), "undone 3/0 0/3");
    let mut told: Vec<String> = stage.results(operation).await.into_iter().map(|(_, told)| told).collect();
    told.sort();
    assert_eq!(told, ["kept JF008 job_running", "kept JF008 job_started", "kept JF008 job_succeeded"]);
}

#[tokio::test]
async fn an_undo_makes_whole_dead_letters_of_what_waits() {
    let stage = Stage::set().await;
    let id = stage.dead_with("'{\"to\": \"a\"}', p_max_attempts => 1", "retryable", "x").await;
    let was = stage.row(id).await;
    stage.pass(5.0).await;
    let patch = r#"p_patch => '[{"op": "add", "path": "/to", "value": "b"}]', p_max_attempts => 9"#;
    let operation = stage.start(&format!("{ALL_DEAD}, {patch}")).await.unwrap();
    stage.step(operation, 10).await;
    let row = stage.row(id).await;
    assert_eq!((&row["payload"], &row["max_attempts"]), (&json!({ "to": "b" }), &json!(9)));
    assert_eq!(stage.undo(operation, 10).await.unwrap(), "undone 1/0 1/0");
    assert_eq!(stage.row(id).await, was);
    assert_eq!(stage.undo(operation, 10).await.unwrap(), "undone 1/0 1/0", "once more changes nothing");
}

#[tokio::test]
async fn an_undo_ends_an_operation_that_runs() {
    let stage = Stage::set().await;
    dead_letters(&stage, 4).await;
    let operation = stage.start(ALL_DEAD).await.unwrap();
    assert_eq!(stage.step(operation, 2).await, "running 2/0 0/0");
    assert_eq!(stage.undo(operation, 10).await.unwrap(), "undone 2/0 2/0");
    assert_eq!(stage.step(operation, 10).await, "undone 2/0 2/0");
    assert_eq!(statuses(&stage).await, "failed 4");
}

#[tokio::test]
async fn a_redrive_in_one_call_is_undone_too() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    let was = stage.row(id).await;
    let sql = "select operation_id from jobforge.redrive_jobs($1, array[$2::uuid]) limit 1";
    let operation: Uuid = stage.app.query(sql, &[&TENANT_A, &id]).await.unwrap()[0].get(0);
    assert_eq!(stage.told(id).await, "queued 1/0/0");
    assert_eq!(stage.undo(operation, 10).await.unwrap(), "undone 1/0 1/0");
    assert_eq!(stage.row(id).await, was);
}

#[tokio::test]
async fn a_cancel_ends_what_waits_asks_what_runs_and_is_not_undone() {
    let stage = Stage::set().await;
    let dead = stage.dead().await;
    let running = stage.running().await.id;
    stage.tick().await;
    let waiting = stage.job().await;
    enqueue_with(stage.app.client(), TENANT_A, "test.other", "'{}'").await.unwrap();
    let operation = stage.start(r#"'cancel', '{"type": "test.noop"}', 'no longer wanted'"#).await.unwrap();
    assert_eq!(stage.step(operation, 2).await, "running 2/0 0/0");
    assert_eq!(stage.step(operation, 2).await, "finished 3/0 0/0");
    let told = stage.results(operation).await;
    let wanted = [(dead, "canceled"), (running, "cancel_requested"), (waiting, "canceled")];
    assert_eq!(told, wanted.map(|(id, told)| (id, told.to_owned())));
    assert_eq!(statuses(&stage).await, "canceled 2, queued 1, running 1");
    let sql = "select error from jobforge.job_history where id = $1";
    let error: String = stage.admin.query_one(sql, &[&waiting]).await.unwrap().get(0);
    assert_eq!(error, "no longer wanted");
    assert_eq!(refusal(stage.undo(operation, 10).await), "JF008 bulk_not_undoable");
}

#[tokio::test]
async fn a_cancel_of_waiting_jobs_leaves_the_others() {
    let stage = Stage::set().await;
    stage.dead().await;
    stage.running().await;
    stage.jobs(3).await;
    let operation = stage.start(r#"'cancel', '{"statuses": ["queued"]}'"#).await.unwrap();
    assert_eq!(stage.step(operation, 100).await, "finished 3/0 0/0");
    assert_eq!(statuses(&stage).await, "canceled 3, failed 1, running 1");
    let operation = stage.start(r#"'cancel', '{"statuses": ["failed"], "tag": "none"}'"#).await.unwrap();
    assert_eq!(stage.step(operation, 100).await, "finished 0/0 0/0");
}

#[tokio::test]
async fn operations_are_listed_the_latest_first() {
    let stage = Stage::set().await;
    let mut operations = Vec::new();
    for _ in 0..3 {
        operations.insert(0, stage.start(ALL_DEAD).await.unwrap());
        stage.pass(1.0).await;
    }
    let list = async |before: Option<Uuid>| -> Vec<Uuid> {
        let sql = "select id from jobforge.list_bulks($1, 2, $2)";
        stage.app.query(sql, &[&TENANT_A, &before]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(list(None).await, operations[..2]);
    assert_eq!(list(Some(operations[1])).await, operations[2..]);
}

#[tokio::test]
async fn results_are_paged_and_filtered() {
    let stage = Stage::set().await;
    let mut dead = dead_letters(&stage, 3).await;
    dead.sort_unstable();
    let operation = stage.start(ALL_DEAD).await.unwrap();
    stage.step(operation, 10).await;
    let page = async |verdict: Option<&str>, after: Option<Uuid>| -> Vec<Uuid> {
        let sql = "select job_id from jobforge.list_bulk_results($1, $2, p_verdict => $3, p_limit => 2, p_after => $4)";
        let rows = stage.app.client().query(sql, &[&TENANT_A, &operation, &verdict, &after]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(page(None, None).await, dead[..2]);
    assert_eq!(page(Some("redriven"), Some(dead[1])).await, dead[2..]);
    assert!(page(Some("skipped"), None).await.is_empty());
}
