//! A row's place is only a hint, and time is the clock's, not the transaction's.

use super::stage::{Stage, refusal, rival_claim};
use crate::schema::TENANT_A;
use crate::schema::calls::{Held, claim, complete, fail};

/// Completes with the place that the claim told.
const BY_PLACE: &str = "select verdict from jobforge.complete_jobs($1, array[$2::uuid], array[$3::uuid],
    array[$4::integer], p_locators => array[$5::text::tid])";

async fn complete_by_place(stage: &Stage, job: &Held) -> String {
    let rows = stage
        .worker
        .query(BY_PLACE, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &job.locator])
        .await
        .unwrap();
    rows[0].get(0)
}

#[tokio::test]
async fn a_row_moved_by_a_cancel_request_is_still_found_and_done() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();
    assert_eq!(complete_by_place(&stage, &job).await, "done");
    assert_eq!(stage.told(job.id).await, "succeeded 1/0/0");
}

#[tokio::test]
async fn a_row_moved_by_its_own_progress_is_still_found_and_done() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let sql = "select jobforge.report_progress($1, $2, $3, $4, 50)";
    stage.worker.query(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence]).await.unwrap();
    assert_eq!(complete_by_place(&stage, &job).await, "done");
    assert_eq!(stage.count("select count(*) from jobforge.job_progress").await, 0);
}

#[tokio::test]
async fn a_row_that_moves_while_its_report_waits_is_still_found_and_done() {
    for by_place in [true, false] {
        let stage = Stage::set().await;
        let job = stage.running().await;
        stage.app.begin().await;
        stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();

        let place = if by_place { Some(job.locator.clone()) } else { None };
        let sql = "select verdict from jobforge.complete_jobs($1, array[$2::uuid], array[$3::uuid],
            array[$4::integer], p_locators => case when $5::text is not null then array[$5::text::tid] end)";
        let report = stage
            .worker
            .spawn_blocked(
                sql,
                vec![
                    Box::new(job.lease_id),
                    Box::new(job.tenant_id),
                    Box::new(job.id),
                    Box::new(job.fence),
                    Box::new(place),
                ],
            )
            .await;
        stage.app.commit().await;
        let (_, rows) = report.finish().await;
        assert_eq!(rows.unwrap()[0].get::<_, String>(0), "done", "by place: {by_place}");
    }
}

#[tokio::test]
async fn a_place_that_now_holds_another_job_does_that_job_nothing() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    let mut held = stage.claim(2).await;
    let place = held[1].locator.clone();
    held[0].locator = place;
    assert_eq!(complete_by_place(&stage, &held[0]).await, "done");
    assert!(!stage.see(held[0].id).await.leased);
    assert_eq!(stage.told(held[1].id).await, "running 1/0/0");
}

#[tokio::test]
async fn a_long_transaction_judges_a_lease_by_the_clock_and_not_by_its_own_start() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.worker.begin().await;
    stage.worker.query("select 1", &[]).await.unwrap();
    stage.pass(31.0).await;
    assert_eq!(refusal(complete(stage.worker.client(), &job).await), "JF006 fence_stale");
    stage.worker.rollback().await;
    assert_eq!(stage.told(job.id).await, "running 1/0/0");
}

#[tokio::test]
async fn a_long_transaction_claims_what_fell_due_after_it_began() {
    let stage = Stage::set().await;
    let sql = "select * from jobforge.enqueue_job($1, 'test.noop', p_run_at => jobforge.clock() + interval '1 minute')";
    stage.app.query(sql, &[&TENANT_A]).await.unwrap();
    stage.worker.begin().await;
    assert_eq!(claim(stage.worker.client(), "w1", 1).await.unwrap().len(), 0);
    stage.pass(61.0).await;
    assert_eq!(claim(stage.worker.client(), "w1", 1).await.unwrap().len(), 1);
    stage.worker.commit().await;
}

#[tokio::test]
async fn an_expired_lease_refuses_its_report_before_the_reaper_comes() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.pass(30.0).await;
    let worker = stage.worker.client();
    assert_eq!(refusal(complete(worker, &job).await), "JF006 fence_stale");
    assert_eq!(refusal(fail(worker, &job, "retryable").await), "JF006 fence_stale");
    let args = "$1, $2, $3, $4";
    for (call, code) in [
        (format!("jobforge.snooze_job({args}, 1)"), "JF006 fence_stale"),
        (format!("jobforge.report_progress({args}, 1)"), "JF006 fence_stale"),
        (format!("jobforge.append_log({args}, '{{info}}', '{{x}}')"), "JF006 fence_stale"),
    ] {
        let sql = format!("select {call}");
        let report = stage.worker.query(&sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence]).await;
        assert_eq!(refusal(report), code, "{call}");
    }
    for call in ["heartbeat($1)", "release_jobs($1)", "claim_jobs('w1', '{default}', '{test.noop}', 1, $1)"] {
        let sql = format!("select * from jobforge.{call}");
        assert_eq!(refusal(stage.worker.query(&sql, &[&job.lease_id]).await), "JF006 lease_lost", "{call}");
    }
    assert_eq!(stage.told(job.id).await, "running 1/0/0");
}

#[tokio::test]
async fn a_zombies_report_after_the_next_claim_changes_nothing() {
    let stage = Stage::set().await;
    let zombie = stage.running().await;
    stage.pass(31.0).await;
    stage.reap().await;
    stage.pass(3.0).await;
    let heir = rival_claim(&stage.rival, 1).await.remove(0);
    assert_eq!((heir.id, heir.fence), (zombie.id, 2));

    assert_eq!(refusal(complete(stage.worker.client(), &zombie).await), "JF006 fence_stale");
    // Not with the living lease of the heir either, nor with the fence alone.
    let forged = Held { lease_id: heir.lease_id, ..zombie.clone() };
    assert_eq!(refusal(complete(stage.worker.client(), &forged).await), "JF006 fence_stale");
    assert_eq!(stage.told(zombie.id).await, "running 2/0/1");
    assert_eq!(complete(stage.rival.client(), &heir).await.unwrap(), "done");
}
