//! Redrive: what goes back, what stays, and that one row's trouble is its own.

use serde_json::json;
use uuid::Uuid;

use super::cast::{list, redrive};
use crate::races::stage::{Stage, ids, mark_behind, refusal};
use crate::schema::calls::{ClaimOptions, act_for, claim_with, complete, enqueue_with, fail};
use crate::schema::{NOOP, TENANT_A};

#[tokio::test]
async fn a_dead_letter_goes_back_as_the_same_job_with_no_failures() {
    let stage = Stage::set().await;
    let id = stage.dead_with("'{}', p_max_attempts => 1", "retryable", "told to fail").await;
    assert_eq!(stage.told(id).await, "dead 1/1/0");
    stage.pass(60.0).await;
    let redriven = stage.redrive(&format!("{}, p_max_attempts => 7", list(&[id]))).await;
    assert_eq!(redriven, [(id, "redriven".to_owned())]);
    let seen = stage.see(id).await;
    assert_eq!((seen.told().as_str(), seen.ready, seen.run_at), ("queued 1/0/0", true, stage.now().await));
    let row = stage.row(id).await;
    assert_eq!(
        (&row["max_attempts"], &row["error"]),
        (&json!(7), &json!("told to fail")),
        "the last error stays"
    );
    let job = stage.claim(1).await.remove(0);
    assert_eq!((job.id, job.fence, job.failures), (id, 2, 0));
    complete(stage.worker.client(), &job).await.unwrap();
    assert_eq!(stage.told(id).await, "succeeded 2/0/0");
}

#[tokio::test]
async fn a_job_that_killed_its_workers_starts_with_no_deaths() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    stage.meddle("update jobforge.jobs set fence = 5, failures = 0, deaths = 5 where id = $1", &[&id]).await;
    stage.redrive(&list(&[id])).await;
    assert_eq!(stage.told(id).await, "queued 5/0/0");
}

#[tokio::test]
async fn each_row_gets_its_own_answer() {
    let stage = Stage::set().await;
    let dead = stage.dead().await;
    let over = stage.running().await;
    complete(stage.worker.client(), &over).await.unwrap();
    let running = stage.running().await.id;
    let waiting = stage.job().await;
    let unknown = Uuid::from_u128(7);
    let mut told = stage.redrive(&list(&[dead, over.id, running, waiting, unknown, dead])).await;
    told.sort_by_key(|(id, _)| *id);
    let mut wanted = [
        (dead, "redriven"),
        (over.id, "skipped JF008 job_succeeded"),
        (running, "skipped JF008 job_running"),
        (waiting, "skipped JF008 job_queued"),
        (unknown, "skipped JF007 job_unknown"),
    ]
    .map(|(id, told)| (id, told.to_owned()));
    wanted.sort_by_key(|(id, _)| *id);
    assert_eq!(told, wanted);
}

#[tokio::test]
async fn a_living_twin_keeps_its_dead_letter_down_and_the_neighbours_go_on() {
    let stage = Stage::set().await;
    let neighbour = stage.dead().await;
    let first = stage.dead_with("'{}', p_dedupe_key => 'd'", "permanent", "x").await;
    let second = stage.dead_with("'{}', p_dedupe_key => 'd'", "permanent", "x").await;
    let twin = (second, "skipped JF008 dedupe_twin_alive".to_owned());
    let ids = list(&[neighbour, first, second]);
    // Of two dead letters with one key the first takes it, and a dry run knows.
    let dry = stage.redrive(&format!("{ids}, p_dry_run => true")).await;
    let redrivable = |id: Uuid| (id, "redrivable".to_owned());
    assert_eq!(dry, [redrivable(neighbour), redrivable(first), twin.clone()]);
    assert_eq!(stage.told(first).await, "failed 1/1/0", "a dry run changes nothing");
    assert_eq!(stage.count("select count(*) from jobforge.bulk_operations").await, 0);
    let done = stage.redrive(&ids).await;
    assert_eq!(done, [(neighbour, "redriven".into()), (first, "redriven".into()), twin]);
    assert_eq!(stage.told(second).await, "failed 1/1/0");
}

#[tokio::test]
async fn an_edited_payload_runs_and_the_old_one_is_kept() {
    let stage = Stage::set().await;
    let id = stage.dead_with("'{\"to\": \"wrong\", \"n\": 1.10}'", "permanent", "x").await;
    let patch = r#"'[{"op": "test", "path": "/to", "value": "wrong"}, {"op": "replace", "path": "/to", "value": "right"}]'"#;
    let told = stage.redrive(&format!("{}, p_patch => {patch}, p_reason => 'typo'", list(&[id]))).await;
    assert_eq!(told, [(id, "redriven".to_owned())]);
    let job = stage.claim(1).await.remove(0);
    assert_eq!(job.payload, json!({ "to": "right", "n": 1.10 }));
    let sql = "select o.patch #>> '{1,value}', o.reason, o.actor, r.before #>> '{payload,to}', r.before ->> 'fence'
               from jobforge.bulk_operations o join jobforge.bulk_results r on r.operation_id = o.id where r.job_id = $1";
    let row = stage.admin.query_one(sql, &[&id]).await.unwrap();
    let kept: Vec<String> = (0..5).map(|at| row.get(at)).collect();
    assert_eq!(kept, ["right", "typo", "jf_test_app", "wrong", "1"]);
    let sql = "select job_id, before ->> 'status' from jobforge.list_bulk_results($1, p_job_id => $2)";
    let row = &stage.app.query(sql, &[&TENANT_A, &id]).await.unwrap()[0];
    assert_eq!((row.get::<_, Uuid>(0), row.get::<_, String>(1)), (id, "failed".to_owned()), "by the job");
    let sql = "select detail ->> 'edited', detail ? 'patch', actor from jobforge.audit_log where action = 'redrive'";
    let row = stage.admin.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, String>(0), row.get::<_, bool>(1)), ("true".to_owned(), false));
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_nothing_of_that_row() {
    let stage = Stage::set().await;
    let fits = stage.dead_with("'{\"a\": 1}'", "permanent", "x").await;
    let other = stage.dead_with("'{\"a\": 2}'", "permanent", "x").await;
    let none = stage.dead_with("'{\"b\": 1}'", "permanent", "x").await;
    let before = (stage.row(other).await, stage.row(none).await);
    let patch = r#"'[{"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "/c", "value": 3}]'"#;
    let told = stage.redrive(&format!("{}, p_patch => {patch}", list(&[fits, other, none]))).await;
    let wanted = [
        (fits, "redriven"),
        (other, "skipped JF003 patch_test_failed"),
        (none, "skipped JF003 patch_path_missing"),
    ];
    assert_eq!(told, wanted.map(|(id, told)| (id, told.to_owned())));
    assert_eq!((stage.row(other).await, stage.row(none).await), before);
}

#[tokio::test]
async fn an_edited_payload_keeps_the_limits() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    let before = stage.row(id).await;
    for (patch, reason) in [
        (r#"'[{"op": "remove", "path": ""}]'"#, "JF003 payload_missing"),
        (
            r#"jsonb_build_array(jsonb_build_object('op', 'add', 'path', '/x', 'value', repeat('x', 262000)), jsonb_build_object('op', 'copy', 'from', '/x', 'path', '/y'))"#,
            "JF003 payload_too_large",
        ),
        (
            r#"jsonb_build_array(jsonb_build_object('op', 'add', 'path', '/x', 'value', (repeat('[', 200) || repeat(']', 200))::jsonb))"#,
            "JF003 payload_too_deep",
        ),
    ] {
        let told = stage.redrive(&format!("{}, p_patch => {patch}", list(&[id]))).await;
        assert_eq!(told, [(id, format!("skipped {reason}"))]);
    }
    assert_eq!(stage.row(id).await, before);
}

#[tokio::test]
async fn a_filter_chooses_and_a_cursor_goes_on() {
    let stage = Stage::set().await;
    let mut dead = Vec::new();
    for n in 0..4 {
        dead.push(stage.dead_with("'{}'", "permanent", &format!("user {n} not found")).await);
        stage.pass(10.0).await;
    }
    let other = stage.dead_with("'{}'", "permanent", "disk full").await;
    let sql = "select fingerprint from jobforge.list_dead_letters($1) where id = $2";
    let fingerprint: String = stage.app.query(sql, &[&TENANT_A, &dead[0]]).await.unwrap()[0].get(0);
    let sql = format!(
        "select id, verdict, next_cursor, complete from jobforge.redrive_jobs('{TENANT_A}', p_fingerprint => '{fingerprint}',
           p_limit => 3, p_cursor => $1)"
    );
    let page = async |cursor: Option<String>| {
        let rows = stage.app.client().query(&sql, &[&cursor]).await.unwrap();
        let (end, rows) = rows.split_last().unwrap();
        let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        (ids, end.get::<_, Option<String>>(2), end.get::<_, bool>(3))
    };
    let (ids, cursor, complete) = page(None).await;
    assert_eq!((ids.as_slice(), complete), (&dead[..3], true), "the oldest first");
    let (ids, cursor, complete) = page(cursor).await;
    assert_eq!((ids.as_slice(), cursor, complete), (&dead[3..], None, true));
    assert_eq!(stage.told(other).await, "failed 1/1/0", "another cause stays");
    let seconds = stage.now().await;
    for arguments in [
        format!("p_failed_before => to_timestamp({seconds})"),
        format!("p_failed_after => to_timestamp({seconds} + 1)"),
        "p_type => 'test.other'".to_owned(),
        "p_queue => 'elsewhere'".to_owned(),
    ] {
        assert_eq!(stage.redrive(&arguments).await, [], "{arguments}");
    }
    let told =
        stage.redrive(&format!("p_failed_after => to_timestamp({seconds}), p_type => 'test.noop'")).await;
    assert_eq!(told, [(other, "redriven".to_owned())]);
}

#[tokio::test]
async fn bad_arguments_are_refused_and_change_nothing() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    let before = stage.row(id).await;
    let one = list(&[id]);
    for (arguments, reason) in [
        ("null".to_owned(), "JF001 filter_empty"),
        (format!("{one}, p_type => 'test.noop'"), "JF001 filter_and_ids"),
        ("array[]::uuid[]".to_owned(), "JF001 batch_size"),
        ("array[null]::uuid[]".to_owned(), "JF001 columns_differ"),
        (format!("{one}, p_patch => '[]'"), "JF001 patch_malformed"),
        (format!("{one}, p_max_attempts => 0"), "JF001 max_attempts_out_of_range"),
        (format!("{one}, p_max_attempts => 1001"), "JF001 max_attempts_out_of_range"),
        (format!("{one}, p_reason => repeat('x', 501)"), "JF001 reason_length"),
        (format!("{one}, p_limit => 0"), "JF001 limit_out_of_range"),
        (format!("{one}, p_limit => null"), "JF001 limit_out_of_range"),
        ("p_type => 'x', p_budget_ms => 0".to_owned(), "JF001 budget_out_of_range"),
        ("p_type => 'x', p_cursor => 'x'".to_owned(), "JF001 cursor_malformed"),
    ] {
        assert_eq!(refusal(redrive(stage.app.client(), &arguments).await), reason, "{arguments}");
    }
    assert_eq!(stage.row(id).await, before);
    assert_eq!(stage.count("select count(*) from jobforge.bulk_operations").await, 0);
}

/// A claimer that remembers where it was finds what came back: the position of a redriven job is now.
#[tokio::test]
async fn a_remembered_position_does_not_hide_a_redriven_job() {
    let stage = Stage::set().await;
    let old = stage.dead().await;
    stage.pass(10.0).await;
    let last = stage.running().await;
    let cursor = mark_behind(&stage, &last).await;
    stage.pass(1.0).await;
    stage.redrive(&list(&[old])).await;
    let o = ClaimOptions { cursor: Some(cursor), ..ClaimOptions::default() };
    let claim = claim_with(stage.worker.client(), "w1", 5, o).await.unwrap();
    assert_eq!(ids(&claim.jobs), [old]);
}

#[tokio::test]
async fn a_redrive_and_its_failure_make_a_dead_letter_again() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    stage.redrive(&list(&[id])).await;
    let job = stage.claim(1).await.remove(0);
    fail(stage.worker.client(), &job, "permanent").await.unwrap();
    assert_eq!(stage.told(id).await, "failed 2/1/0");
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    assert_eq!(stage.redrive("p_type => 'test.noop'").await, [(id, "redriven".to_owned())]);
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "'{}'").await.unwrap();
}
