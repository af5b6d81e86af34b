//! A report in an open transaction stops no beat, the reaper leaves its lease alone, and reapers share the work.

use super::stage::{Stage, reap};
use crate::schema::OPERATOR;
use crate::schema::calls::{beat, claim, complete, fail};

#[tokio::test]
async fn a_report_in_an_open_transaction_does_not_stop_the_beat() {
    let stage = Stage::set().await;
    stage.jobs(3).await;
    let held = stage.claim(3).await;
    stage.worker.begin().await;
    complete(stage.worker.client(), &held[0]).await.unwrap();
    fail(stage.worker.client(), &held[1], "retryable").await.unwrap();

    stage.rival.run("set lock_timeout = '10s'").await;
    stage.pass(20.0).await;
    assert_eq!(beat(stage.rival.client(), held[0].lease_id, &held[2..]).await.unwrap(), []);
    stage.pass(20.0).await;
    assert_eq!(stage.reap().await, (0, 0, 0), "the beat kept the lease alive");
    stage.worker.commit().await;
    assert_eq!(stage.told(held[0].id).await, "succeeded 1/0/0");
}

#[tokio::test]
async fn a_claim_in_an_open_transaction_does_not_stop_the_beat_of_its_lease() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.job().await;
    stage.worker.begin().await;
    let sql = "select * from jobforge.claim_jobs('w1', '{default}', '{test.noop}', 1, $1)";
    assert_eq!(stage.worker.query(sql, &[&job.lease_id]).await.unwrap().len(), 2);
    stage.rival.run("set lock_timeout = '10s'").await;
    assert_eq!(beat(stage.rival.client(), job.lease_id, &[]).await.unwrap(), []);
    stage.worker.commit().await;
}

#[tokio::test]
async fn the_reaper_skips_a_lease_whose_report_is_still_open() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.worker.begin().await;
    complete(stage.worker.client(), &job).await.unwrap();
    stage.pass(31.0).await;
    stage.operator.run("set lock_timeout = '10s'").await;
    assert_eq!(stage.reap().await, (0, 0, 0));
    stage.worker.commit().await;
    assert_eq!(stage.reap().await, (1, 0, 0));
    assert_eq!(stage.told(job.id).await, "succeeded 1/0/0", "one end, and no death after it");
}

#[tokio::test]
async fn two_reapers_at_once_split_the_leases_and_settle_each_job_once() {
    let stage = Stage::set().await;
    let jobs = stage.jobs(2).await;
    stage.claim(1).await;
    stage.claim(1).await;
    stage.pass(31.0).await;
    let second = stage.db.session_at(&stage.db.url_as(OPERATOR, None)).await;
    second.run("set lock_timeout = '10s'").await;

    stage.operator.begin().await;
    assert_eq!(reap(&stage.operator, stage.term, 1).await.unwrap(), (1, 0, 1));
    assert_eq!(reap(&second, stage.term, 100).await.unwrap(), (1, 0, 1));
    stage.operator.commit().await;
    for id in jobs {
        assert_eq!(stage.told(id).await, "queued 1/0/1");
    }
}

#[tokio::test]
async fn a_report_that_comes_while_the_reaper_works_is_stale() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.pass(31.0).await;
    stage.operator.begin().await;
    assert_eq!(stage.reap().await, (1, 0, 1));
    let sql = "select jobforge.complete_job($1, $2, $3, $4)";
    let report = stage
        .a_worker()
        .await
        .spawn_blocked(
            sql,
            vec![Box::new(job.lease_id), Box::new(job.tenant_id), Box::new(job.id), Box::new(job.fence)],
        )
        .await;
    stage.operator.commit().await;
    let (_, refused) = report.finish().await;
    assert_eq!(super::stage::refusal(refused), "JF006 fence_stale");
    assert_eq!(stage.told(job.id).await, "queued 1/0/1");
}

#[tokio::test]
async fn a_reap_that_rolls_back_leaves_lease_and_jobs_as_they_were() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.pass(31.0).await;
    stage.operator.begin().await;
    stage.reap().await;
    stage.operator.rollback().await;
    assert_eq!(stage.told(job.id).await, "running 1/0/0");
    assert_eq!(stage.reap().await, (1, 0, 1));
    assert_eq!(claim(stage.worker.client(), "w1", 1).await.unwrap(), []);
}
