//! How many jobs of a tenant may wait: refused beyond, and nobody held up by the counting.

use uuid::Uuid;

use super::stage::{Stage, refusal};
use crate::schema::calls::{act_for, enqueue_many, enqueue_with, fail};
use crate::schema::{NOOP, TENANT_A, TENANT_B};

/// A batch of plain jobs: what became of each, told by `in` or the refusal.
async fn batch(stage: &Stage, count: i32) -> Vec<String> {
    let sql = "select coalesce(nullif(error_reason, ''), 'in') from jobforge.enqueue_jobs($1, array_fill('test.noop'::text, array[$2::integer]),
        array_fill('{}'::jsonb, array[$2::integer])) order by at";
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    let rows = stage.app.query(sql, &[&TENANT_A, &count]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn one(stage: &Stage, extra: &str) -> Result<(Uuid, bool), tokio_postgres::Error> {
    enqueue_with(stage.app.client(), TENANT_A, NOOP, extra).await
}

const FULL: &str = "JF005 max_pending";

#[tokio::test]
async fn a_small_limit_is_exact() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_pending => 5").await;
    for _ in 0..2 {
        one(&stage, "'{}'").await.unwrap();
    }
    one(&stage, "p_run_at => jobforge.clock() + interval '1 hour'").await.unwrap();
    let told = batch(&stage, 4).await;
    assert_eq!(told[..2], ["in", "in"]);
    assert!(told[2..].iter().all(|told| told.contains("max_pending")), "{told:?}");
    assert_eq!(refusal(one(&stage, "'{}'").await), FULL);
    let plain = "select jobforge.enqueue_plain($1, $2, '{}')";
    assert_eq!(refusal(stage.app.query(plain, &[&TENANT_A, &NOOP]).await), FULL);
    enqueue_many(stage.app.client(), TENANT_B, NOOP, 20).await.unwrap();
    assert_eq!(
        stage
            .count(
                "select count(*) from jobforge.jobs where tenant_id = '11111111-1111-1111-1111-111111111111'"
            )
            .await,
        5
    );
}

/// Of what is known already the limit says nothing, and the payload must be sound all the same.
#[tokio::test]
async fn a_missing_payload_is_told_for_its_row_where_nobody_new_is_let_in() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_pending => 1").await;
    let (twin, _) = one(&stage, "'{}', p_dedupe_key => 'd'").await.unwrap();
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    let sql = "select id, error_code || ' ' || error_reason from jobforge.enqueue_jobs($1, array[$2, $2], array['{}', null]::jsonb[],
        p_idempotency_keys => '{x,y}', p_dedupe_keys => '{d,d}') order by at";
    let rows = stage.app.query(sql, &[&TENANT_A, &NOOP]).await.unwrap();
    assert_eq!(rows[0].get::<_, Uuid>(0), twin);
    assert_eq!(rows[1].get::<_, &str>(1), "JF003 payload_missing");
}

#[tokio::test]
async fn what_runs_or_is_dead_does_not_wait() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_pending => 2").await;
    stage.jobs(2).await;
    let held = stage.claim(2).await;
    stage.jobs(1).await;
    fail(stage.worker.client(), &held[0], "permanent").await.unwrap();
    stage.jobs(1).await;
    assert_eq!(refusal(one(&stage, "'{}'").await), FULL);
    fail(stage.worker.client(), &held[1], "retryable").await.unwrap();
    assert_eq!(stage.claim(9).await.len(), 2, "what fails comes back whatever waits");
    one(&stage, "'{}'").await.unwrap();
    assert_eq!(refusal(one(&stage, "'{}'").await), FULL, "the retry waits");
    stage.tenant(TENANT_A, "p_clear => '{max_pending}'").await;
    stage.jobs(9).await;
}

#[tokio::test]
async fn what_is_known_is_answered_though_nothing_more_may_wait() {
    let stage = Stage::set().await;
    let by_key = one(&stage, "p_idempotency_key => 'k'").await.unwrap().0;
    let by_twin = one(&stage, "p_dedupe_key => 'd'").await.unwrap().0;
    stage.tenant(TENANT_A, "p_max_pending => 1").await;
    assert_eq!(one(&stage, "p_idempotency_key => 'k'").await.unwrap(), (by_key, true));
    assert_eq!(one(&stage, "p_dedupe_key => 'd'").await.unwrap(), (by_twin, true));
    for extra in ["p_idempotency_key => 'l'", "p_dedupe_key => 'e'"] {
        assert_eq!(refusal(one(&stage, extra).await), FULL);
    }
}

#[tokio::test]
async fn a_large_limit_is_counted_once_a_second() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_pending => 1500").await;
    assert!(batch(&stage, 1000).await.iter().all(|told| told == "in"));
    assert!(
        batch(&stage, 600).await.iter().all(|told| told == "in"),
        "by a count of this second there is room"
    );
    stage.lose(1.1).await;
    assert_eq!(batch(&stage, 1).await, ["max_pending"]);
    stage.claim(200).await;
    assert_eq!(refusal(one(&stage, "'{}'").await), FULL, "by a count of this second there is none");
    stage.lose(1.1).await;
    let told = batch(&stage, 200).await;
    assert_eq!(told.iter().filter(|told| *told == "in").count(), 100);
}

#[tokio::test]
async fn an_open_transaction_holds_no_other_enqueue_up() {
    for most in [5, 1500] {
        let stage = Stage::set().await;
        stage.tenant(TENANT_A, &format!("p_max_pending => {most}")).await;
        stage.other.run("set lock_timeout = '10s'").await;
        stage.app.begin().await;
        one(&stage, "'{}'").await.unwrap();
        for _ in 0..3 {
            enqueue_with(stage.other.client(), TENANT_A, NOOP, "'{}'").await.unwrap();
        }
        stage.app.commit().await;
    }
}

#[tokio::test]
async fn a_tenants_retention_is_that_of_its_jobs() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_retention => 'month'").await;
    let plain = "select jobforge.enqueue_plain($1, $2, '{}')";
    stage.app.query(plain, &[&TENANT_A, &NOOP]).await.unwrap();
    stage.jobs(2).await;
    one(&stage, "p_idempotency_key => 'k'").await.unwrap();
    enqueue_many(stage.app.client(), TENANT_B, NOOP, 1).await.unwrap();
    for job in stage.claim(9).await {
        crate::schema::calls::complete(stage.worker.client(), &job).await.unwrap();
    }
    let sql =
        "select count(*) from jobforge.job_history where (retention = 'month') = (tenant_id::text like '1%')";
    assert_eq!(stage.count(sql).await, 5);
}
