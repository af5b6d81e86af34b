//! One decision for every end, one bad row for nobody else.

use super::stage::{Stage, refusal};
use crate::schema::TENANT_A;
use crate::schema::calls::{Held, fail};

/// `settle` on the test type's definition: the status, and the wait in milliseconds if there is one.
async fn settle(stage: &Stage, outcome: &str, counts: [i32; 3], rest: &str) -> (String, Option<f64>) {
    let sql = format!(
        "select s.status, extract(epoch from s.run_at - jobforge.clock())::float8 * 1000
         from jobforge.definitions d, jobforge.settle($1, $2, $3, $4, {rest}, jobforge.clock()) as s
         where d.key = 'test.noop'"
    );
    let row = stage.admin.query_one(&sql, &[&outcome, &counts[0], &counts[1], &counts[2]]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn settle_decides_every_end() {
    let stage = Stage::set().await;
    // outcome, failures, deaths, max_attempts, cancel requested → status
    for (outcome, counts, cancel, status) in [
        ("retryable", [1, 0, 5], false, "queued"),
        ("retryable", [4, 0, 5], false, "queued"),
        ("retryable", [5, 0, 5], false, "dead"),
        ("retryable", [9, 0, 5], false, "dead"),
        ("retryable", [1, 9, 5], false, "queued"),
        ("retryable", [1, 0, 1], false, "dead"),
        ("permanent", [1, 0, 5], false, "failed"),
        ("permanent", [5, 0, 5], false, "failed"),
        ("lost", [0, 1, 5], false, "queued"),
        ("lost", [0, 4, 5], false, "queued"),
        ("lost", [0, 5, 5], false, "dead"),
        ("lost", [4, 1, 1], false, "queued"),
        ("canceled", [0, 0, 5], false, "canceled"),
        ("retryable", [1, 0, 5], true, "canceled"),
        ("retryable", [5, 0, 5], true, "canceled"),
        ("permanent", [1, 0, 5], true, "canceled"),
        ("lost", [0, 5, 5], true, "canceled"),
    ] {
        let at = if cancel { "jobforge.clock(), d, null" } else { "null, d, null" };
        let (told, wait) = settle(&stage, outcome, counts, at).await;
        assert_eq!(told, status, "{outcome} {counts:?} canceled: {cancel}");
        assert_eq!(wait.is_some(), status == "queued", "only what runs again has a time for it");
    }
}

#[tokio::test]
async fn the_wait_grows_to_its_cap_and_never_overflows() {
    let stage = Stage::set().await;
    for (failures, least, most) in
        [(1, 900.0, 1100.0), (2, 1800.0, 2200.0), (5, 14_400.0, 17_600.0), (10_000, 3_240_000.0, 3_960_000.0)]
    {
        let (_, wait) = settle(&stage, "retryable", [failures, 0, 20_000], "null, d, null").await;
        let wait = wait.unwrap();
        assert!((least..=most).contains(&wait), "after {failures} failures it waits {wait} ms");
    }
    stage
        .meddle("update jobforge.definitions set retry_factor = 100, retry_base_ms = 86400000, retry_cap_ms = 2592000000, retry_jitter = 1", &[])
        .await;
    let (_, wait) = settle(&stage, "retryable", [i32::MAX - 1, 0, i32::MAX], "null, d, 31536000000").await;
    assert!((31_536_000_000.0..=34_689_600_000.1).contains(&wait.unwrap()), "{wait:?}");
}

#[tokio::test]
async fn a_servers_wish_is_never_undercut_and_at_most_spread_behind_it() {
    let stage = Stage::set().await;
    for _ in 0..50 {
        let wait = settle(&stage, "retryable", [1, 0, 5], "null, d, 60000").await.1.unwrap();
        assert!((60_000.0..=66_000.0).contains(&wait), "{wait}");
        let wait = settle(&stage, "retryable", [1, 0, 5], "null, d, 10").await.1.unwrap();
        assert!((900.0..=1100.0).contains(&wait), "a short wish does not shorten the wait: {wait}");
    }
}

#[tokio::test]
async fn retries_that_fail_together_do_not_come_back_together() {
    let stage = Stage::set().await;
    let mut waits = Vec::new();
    for _ in 0..20 {
        waits.push(settle(&stage, "retryable", [5, 0, 9], "null, d, null").await.1.unwrap());
    }
    waits.sort_by(f64::total_cmp);
    assert!(waits[19] - waits[0] > 100.0, "spread over {} ms", waits[19] - waits[0]);
}

#[tokio::test]
async fn presets_set_the_waits() {
    let stage = Stage::set().await;
    // After one, two, three and very many failures, in seconds, each spread by a tenth.
    for (preset, waits) in [
        ("standard", [1.0, 2.0, 4.0, 3600.0]),
        ("quick", [1.0, 2.0, 4.0, 60.0]),
        ("patient", [2.0, 4.0, 8.0, 1024.0]),
    ] {
        let sql = "select jobforge.upsert_definition('test.noop', p_retry_preset => $1)";
        stage.operator.query(sql, &[&preset]).await.unwrap();
        for (failures, seconds) in [1, 2, 3, 40].into_iter().zip(waits) {
            for _ in 0..20 {
                let wait = settle(&stage, "retryable", [failures, 0, 50], "null, d, null").await.1.unwrap();
                let spread = 900.0 * seconds..=1100.0 * seconds;
                assert!(spread.contains(&wait), "{preset} waits {wait} ms after {failures} failures");
            }
        }
    }
}

#[tokio::test]
async fn a_lapsed_job_with_a_cancel_request_ends_canceled() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    let held = stage.claim_in(2, 1).await;
    for job in &held {
        stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();
    }
    stage.pass(31.0).await;
    assert_eq!(stage.reap().await.0, 1);
    for job in &held {
        let seen = stage.see(job.id).await;
        assert_eq!((seen.status.as_str(), seen.over), ("canceled", true), "started or not");
    }
}

#[tokio::test]
async fn a_failing_job_with_a_cancel_request_is_not_retried() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();
    let (verdict, _) = fail(stage.worker.client(), &job, "retryable").await.unwrap();
    assert_eq!(verdict, "done");
    assert_eq!(stage.see(job.id).await.status, "canceled");
}

#[tokio::test]
async fn one_bad_row_of_an_enqueue_leaves_the_others_made() {
    for keys in ["", ", p_idempotency_keys => array['a', 'b', 'c', 'd', 'e']"] {
        let stage = Stage::set().await;
        let sql = format!(
            "select error_code, error_reason, id from jobforge.enqueue_jobs($1,
               array['test.noop', 'no.such', 'test.noop', 'test.noop', 'test.other'],
               array['{{}}', '{{}}', null, '{{}}', '{{}}']::jsonb[],
               p_priorities => array[50, 50, 50, 5000, 50]{keys}) order by at"
        );
        let rows = stage.app.query(&sql, &[&TENANT_A]).await.unwrap();
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                row.get::<_, Option<String>>(0).unwrap_or_default()
                    + " "
                    + &row.get::<_, Option<String>>(1).unwrap_or_default()
            })
            .collect();
        assert_eq!(
            told,
            [" ", "JF002 unknown_definition", "JF003 payload_missing", "JF001 priority_out_of_range", " "]
        );
        assert_eq!(stage.count("select count(*) from jobforge.jobs").await, 2);
    }
}

#[tokio::test]
async fn one_bad_row_of_a_completion_leaves_the_others_done() {
    let stage = Stage::set().await;
    stage.jobs(3).await;
    let held = stage.claim(3).await;
    let sql = "select verdict from jobforge.complete_jobs($1, $2, $3, $4,
        array['1', to_jsonb(repeat('x', 1100000)), '3']::jsonb[]) order by at";
    let rows = stage
        .worker
        .query(sql, &[&held[0].lease_id, &vec![TENANT_A; 3], &super::stage::ids(&held), &vec![1, 1, 1]])
        .await
        .unwrap();
    let verdicts: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(verdicts, ["done", "invalid", "done"]);
    assert_eq!(stage.told(held[1].id).await, "running 1/0/0");
}

/// `verdict status` of a batch of retryable failures.
async fn fail_all(stage: &Stage, jobs: &[&Held]) -> Vec<String> {
    let sql = "select concat_ws(' ', verdict, status) from jobforge.fail_jobs($1, $2, $3, $4,
        array_fill('retryable'::text, array[cardinality($3::uuid[])]),
        array_fill('no'::text, array[cardinality($3)])) order by at";
    let (ids, fences): (Vec<_>, Vec<_>) = jobs.iter().map(|job| (job.id, job.fence)).unzip();
    let tenants = vec![TENANT_A; jobs.len()];
    let rows = stage.worker.query(sql, &[&jobs[0].lease_id, &tenants, &ids, &fences]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn one_bad_row_of_a_failure_leaves_the_others_done() {
    let stage = Stage::set().await;
    stage.jobs(3).await;
    let held = stage.claim(3).await;
    let stale = Held { fence: 9, ..held[1].clone() };
    let unknown = Held { id: uuid::Uuid::from_u128(7), ..held[1].clone() };
    let told = fail_all(&stage, &[&held[0], &stale, &unknown, &held[2]]).await;
    assert_eq!(told, ["done queued", "stale", "unknown", "done queued"]);
    assert_eq!(stage.told(held[1].id).await, "running 1/0/0");
}

#[tokio::test]
async fn a_job_that_stands_twice_in_a_batch_of_failures_fails_once() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    let held = stage.claim(2).await;
    let mut told = fail_all(&stage, &[&held[0], &held[0], &held[1]]).await;
    told[..2].sort();
    assert_eq!(told, ["already", "done queued", "done queued"]);
    assert_eq!(stage.told(held[0].id).await, "queued 1/1/0");
}

#[tokio::test]
async fn a_payload_that_is_no_json_fails_before_any_function_runs() {
    let stage = Stage::set().await;
    let rows = stage.app.query("select jobforge.enqueue_job($1, 'test.noop', '{')", &[&TENANT_A]).await;
    assert_eq!(refusal(rows).split(' ').next(), Some("22P02"));
    let rows =
        stage.app.query("select jobforge.enqueue_job($1, 'test.noop', '\"\\u0000\"')", &[&TENANT_A]).await;
    assert_eq!(refusal(rows).split(' ').next(), Some("22P05"));
}
