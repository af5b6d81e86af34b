//! What a server looks up for its callers: log lines in pages, jobs by label and payload, and which jobs are over.

use serde_json::json;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{Held, claim_with, complete, enqueue_with, fail};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B};

/// Says lines named after the attempt: `1.1 1.2 …`.
async fn say(stage: &Stage, job: &Held, lines: i32) {
    let messages: Vec<String> = (1..=lines).map(|line| format!("{}.{line}", job.fence)).collect();
    let levels = vec!["info"; messages.len()];
    let sql = "select jobforge.append_log($1, $2, $3, $4, $5, $6)";
    stage
        .worker
        .query(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &levels, &messages])
        .await
        .unwrap();
}

async fn lines(stage: &Stage, job: Uuid, arguments: &str) -> String {
    let sql = format!(
        "select number || '/' || line || '=' || message from jobforge.list_logs('{TENANT_A}', '{job}'{arguments})"
    );
    let rows = stage.app.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn log_lines_come_in_pages_while_the_job_lives_and_after() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    assert_eq!(lines(&stage, job.id, "").await, "", "nothing was said yet");
    say(&stage, &job, 3).await;
    fail(stage.worker.client(), &job, "retryable").await.unwrap();
    stage.app.query("select jobforge.retry_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();
    let again = stage.claim(1).await.remove(0);
    say(&stage, &again, 2).await;
    for over in [false, true] {
        let all = lines(&stage, job.id, "").await;
        assert_eq!(all, "1/1=1.1 1/2=1.2 1/3=1.3 2/1=2.1 2/2=2.2", "over: {over}");
        assert_eq!(lines(&stage, job.id, ", p_limit => 2").await, "1/1=1.1 1/2=1.2");
        let next = ", p_after_number => 1, p_after_line => 2, p_limit => 2";
        assert_eq!(lines(&stage, job.id, next).await, "1/3=1.3 2/1=2.1", "across attempts");
        assert_eq!(lines(&stage, job.id, ", p_number => 1, p_after_line => 2").await, "1/3=1.3");
        assert_eq!(lines(&stage, job.id, ", p_number => 2").await, "2/1=2.1 2/2=2.2");
        assert_eq!(lines(&stage, job.id, ", p_after_number => 1").await, "2/1=2.1 2/2=2.2");
        assert_eq!(lines(&stage, job.id, ", p_after_number => 2, p_after_line => 2").await, "");
        if !over {
            complete(stage.worker.client(), &again).await.unwrap();
        }
    }
    for (arguments, wanted) in [
        (format!("'{TENANT_A}', '{}', p_limit => 0", job.id), "JF001 limit_out_of_range"),
        (format!("'{TENANT_A}', '{}', p_after_line => 1", job.id), "JF001 position_malformed"),
        (format!("'{TENANT_A}', '{}'", Uuid::now_v7()), "JF007 job_unknown"),
    ] {
        let answer = stage.app.query(&format!("select jobforge.list_logs({arguments})"), &[]).await;
        assert_eq!(refusal(answer), wanted, "{arguments}");
    }
}

/// The jobs that a list with these arguments tells, and whether it is complete.
async fn listed(stage: &Stage, arguments: &str) -> (Vec<Uuid>, bool, Option<Uuid>) {
    let sql = format!("select id, complete, next_cursor from jobforge.list_jobs('{TENANT_A}', {arguments})");
    let mut rows = stage.app.query(&sql, &[]).await.unwrap();
    let end = rows.pop().unwrap();
    (rows.iter().map(|row| row.get(0)).collect(), end.get(1), end.get(2))
}

#[tokio::test]
async fn jobs_are_found_by_label_and_by_what_their_payload_has() {
    let stage = Stage::set().await;
    let enqueue = async |extra: &str| {
        stage.lose(1.0).await;
        enqueue_with(stage.app.client(), TENANT_A, NOOP, extra).await.unwrap().0
    };
    let plain = enqueue("'{\"order\": {\"id\": 7, \"lines\": [1, 2]}}'").await;
    let labelled = enqueue("'{\"order\": {\"id\": 8}}', p_tags => '[\"nightly\", \"eu\"]'").await;
    let over = enqueue("'{\"order\": {\"id\": 7}}', p_tags => '[\"night\"]'").await;
    enqueue_with(stage.other.client(), TENANT_B, NOOP, "'{\"order\": {\"id\": 7}}', p_tags => '[\"eu\"]'")
        .await
        .unwrap();
    stage.app.query("select jobforge.cancel_job($1, $2)", &[&TENANT_A, &over]).await.unwrap();
    for (arguments, wanted) in [
        ("p_tag => 'eu'", vec![labelled]),
        ("p_tag => 'nightly'", vec![labelled]),
        ("p_tag => 'night'", vec![over]),
        ("p_tag => 'none'", vec![]),
        ("p_payload => '{\"order\": {\"id\": 7}}'", vec![over, plain]),
        ("p_payload => '{\"order\": {\"lines\": [2]}}'", vec![plain]),
        ("p_payload => '{\"id\": 7}'", vec![]),
        ("p_payload => '{}'", vec![over, labelled, plain]),
        ("'{canceled}', p_payload => '{\"order\": {\"id\": 7}}'", vec![over]),
        ("p_tag => 'eu', p_payload => '{\"order\": {\"id\": 7}}'", vec![]),
    ] {
        assert_eq!(listed(&stage, arguments).await, (wanted, true, None), "{arguments}");
    }
}

/// Who may not read a value could guess it, digit by digit, if a search went by it.
#[tokio::test]
async fn what_is_redacted_is_not_found() {
    let stage = Stage::set().await;
    stage.definition(NOOP, "p_redact => '{/card/number}'").await;
    let payload =
        "'{\"card\": {\"number\": \"4111-1111-1111\", \"name\": \"Ann\"}, \"note\": \"4111-1111-1111\"}'";
    let id = enqueue_with(stage.app.client(), TENANT_A, NOOP, payload).await.unwrap().0;
    stage.lose(1.0).await;
    let open = enqueue_with(stage.app.client(), TENANT_A, OTHER, payload).await.unwrap().0;
    for (search, wanted) in [
        (r#"{"card": {"number": "4111-1111-1111"}}"#, vec![open]),
        (r#"{"note": "4111-1111-1111"}"#, vec![open]),
        (r#"{"card": {"name": "Ann"}}"#, vec![open, id]),
        (r#"{"card": {"number": "[redacted]"}}"#, vec![id]),
    ] {
        assert_eq!(listed(&stage, &format!("p_payload => '{search}'")).await.0, wanted, "{search}");
    }
}

/// Redacting takes time: a search ends at its budget within a thousand jobs, and goes on from its cursor.
#[tokio::test]
async fn a_search_by_payload_ends_at_its_budget_with_a_cursor() {
    let stage = Stage::set().await;
    stage.definition(NOOP, "p_redact => '{/secret}'").await;
    let needle = enqueue_with(stage.app.client(), TENANT_A, NOOP, "'{\"needle\": true}'").await.unwrap().0;
    let batch = "select count(*) from jobforge.enqueue_jobs($1, array_fill($2::text, array[900]), array_fill($3::jsonb, array[900]))";
    let hay = Json(json!({ "secret": "x".repeat(50), "hay": vec!["y".repeat(50); 200] }));
    stage.app.query(batch, &[&TENANT_A, &NOOP, &hay]).await.unwrap();
    let (mut calls, mut cursor) = (0, "null".to_owned());
    loop {
        calls += 1;
        let (found, complete, next) = listed(
            &stage,
            &format!("p_payload => '{{\"needle\": true}}', p_budget_ms => 1, p_cursor => {cursor}"),
        )
        .await;
        if complete {
            assert_eq!(found, [needle]);
            break;
        }
        assert!(found.is_empty());
        cursor = format!("'{}'", next.unwrap());
    }
    assert!(calls > 1, "900 jobs were redacted in a millisecond");
}

#[tokio::test]
async fn of_many_jobs_those_are_told_that_are_over() {
    let stage = Stage::set().await;
    let [done, failed, running] = {
        stage.jobs(3).await;
        <[Held; 3]>::try_from(stage.claim(3).await).unwrap()
    };
    complete(stage.worker.client(), &done).await.unwrap();
    fail(stage.worker.client(), &failed, "permanent").await.unwrap();
    let canceled = stage.job().await;
    stage.app.query("select jobforge.cancel_job($1, $2)", &[&TENANT_A, &canceled]).await.unwrap();
    let waiting = stage.job().await;
    let of_b = enqueue_with(stage.other.client(), TENANT_B, OTHER, "'{}', p_queue => 'b'").await.unwrap().0;
    let options =
        crate::schema::calls::ClaimOptions { queues: vec!["b"], types: vec![OTHER], ..Default::default() };
    let held = claim_with(stage.worker.client(), "w1", 1, options).await.unwrap().jobs.remove(0);
    complete(stage.worker.client(), &held).await.unwrap();

    let asked = [
        (TENANT_A, done.id),
        (TENANT_A, failed.id),
        (TENANT_A, running.id),
        (TENANT_A, canceled),
        (TENANT_A, canceled),
        (TENANT_A, waiting),
        (TENANT_A, of_b),
        (TENANT_B, of_b),
        (TENANT_B, done.id),
        (TENANT_B, Uuid::now_v7()),
    ];
    let (tenants, ids): (Vec<Uuid>, Vec<Uuid>) = asked.into_iter().unzip();
    let sql = "select tenant_id, id, status, finished_at is not null from jobforge.finished_jobs($1, $2)";
    let rows = stage.operator.query(sql, &[&tenants, &ids]).await.unwrap();
    let mut told: Vec<(Uuid, Uuid, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    told.sort();
    let mut wanted = vec![
        (TENANT_A, done.id, "succeeded".to_owned()),
        (TENANT_A, failed.id, "failed".to_owned()),
        (TENANT_A, canceled, "canceled".to_owned()),
        (TENANT_B, of_b, "succeeded".to_owned()),
    ];
    wanted.sort();
    assert_eq!(told, wanted);
    assert!(rows.iter().all(|row| row.get::<_, bool>(3)));
    for (arguments, wanted) in [
        ("'{}', '{}'", "JF001 batch_size"),
        ("null, null", "JF001 batch_size"),
        ("'{}', array[gen_random_uuid()]", "JF001 columns_differ"),
        ("null, array[gen_random_uuid()]", "JF001 columns_differ"),
        (
            "array_fill(gen_random_uuid(), array[10001]), array_fill(gen_random_uuid(), array[10001])",
            "JF001 batch_size",
        ),
    ] {
        let answer = stage.operator.query(&format!("select jobforge.finished_jobs({arguments})"), &[]).await;
        assert_eq!(refusal(answer), wanted, "{arguments}");
    }
}
