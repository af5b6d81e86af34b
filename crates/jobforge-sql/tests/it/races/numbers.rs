//! Numbers, repeated reports, and the notes that move with a job.

use uuid::Uuid;

use super::stage::{Stage, refusal, rival_claim};
use crate::schema::TENANT_A;
use crate::schema::calls::{Held, claim, complete, complete_many, fail, release, snooze};

async fn next_claim(stage: &Stage) -> Held {
    claim(stage.worker.client(), "w1", 1).await.unwrap().remove(0)
}

#[tokio::test]
async fn the_fence_only_grows_and_only_failures_count_as_failures() {
    let stage = Stage::set().await;
    let worker = stage.worker.client();
    let id = stage.job().await;
    let job = next_claim(&stage).await;
    snooze(worker, &job, 5.0).await.unwrap();
    assert_eq!(stage.told(id).await, "queued 1/0/0", "a snooze is no failure");
    stage.pass(5.0).await;
    release(worker, &next_claim(&stage).await).await.unwrap();
    assert_eq!(stage.told(id).await, "queued 2/0/0", "a release is no failure");
    next_claim(&stage).await;
    stage.pass(31.0).await;
    stage.reap().await;
    assert_eq!(stage.told(id).await, "queued 3/0/1", "a lost lease is a death, not a failure");
    stage.pass(3.0).await;
    fail(worker, &next_claim(&stage).await, "retryable").await.unwrap();
    assert_eq!(stage.told(id).await, "queued 4/1/1");
    stage.pass(10.0).await;
    fail(worker, &next_claim(&stage).await, "permanent").await.unwrap();
    assert_eq!(stage.told(id).await, "failed 5/2/1");
    stage.app.query("select * from jobforge.retry_job($1, $2)", &[&TENANT_A, &id]).await.unwrap();
    assert_eq!(stage.told(id).await, "queued 5/0/0", "a redrive starts the failures anew, never the fence");
    complete(worker, &next_claim(&stage).await).await.unwrap();
    assert_eq!(stage.told(id).await, "succeeded 6/0/0");
}

#[tokio::test]
async fn a_repeated_report_is_told_that_it_came_before() {
    let stage = Stage::set().await;
    let worker = stage.worker.client();
    stage.jobs(3).await;
    let held = stage.claim(3).await;
    assert_eq!(complete(worker, &held[0]).await.unwrap(), "done");
    assert_eq!(complete(worker, &held[0]).await.unwrap(), "already");
    assert_eq!(fail(worker, &held[1], "retryable").await.unwrap().0, "done");
    assert_eq!(fail(worker, &held[1], "retryable").await.unwrap().0, "already");
    assert_eq!(fail(worker, &held[2], "canceled").await.unwrap().0, "done");
    assert_eq!(fail(worker, &held[2], "canceled").await.unwrap().0, "already");
    assert_eq!(stage.told(held[1].id).await, "queued 1/1/0");
    // Also when the lease is gone by then, and for two days.
    stage.pass(31.0).await;
    stage.reap().await;
    assert_eq!(complete(worker, &held[0]).await.unwrap(), "already");
    stage.lose(3.0 * 86_400.0).await;
    assert_eq!(refusal(complete(worker, &held[0]).await), "JF006 fence_stale");
}

#[tokio::test]
async fn a_zombie_whose_job_was_canceled_after_its_death_is_not_told_that_its_report_came_before() {
    let stage = Stage::set().await;
    let zombie = stage.running().await;
    stage.pass(31.0).await;
    stage.reap().await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &zombie.id]).await.unwrap();
    assert_eq!(stage.told(zombie.id).await, "canceled 1/0/1");
    assert_eq!(refusal(complete(stage.worker.client(), &zombie).await), "JF006 fence_stale");
    assert_eq!(refusal(fail(stage.worker.client(), &zombie, "permanent").await), "JF006 fence_stale");
}

#[tokio::test]
async fn a_batch_of_reports_gets_a_verdict_per_row() {
    let stage = Stage::set().await;
    stage.jobs(4).await;
    let held = stage.claim(4).await;
    complete(stage.worker.client(), &held[0]).await.unwrap();
    let stale = Held { fence: 7, ..held[1].clone() };
    let unknown = Held { id: Uuid::from_u128(7), ..held[2].clone() };
    let batch = [held[0].clone(), stale, unknown, held[2].clone(), held[3].clone(), held[3].clone()];
    let verdicts = complete_many(stage.worker.client(), &batch).await.unwrap();
    assert_eq!(&verdicts[..4], ["already", "stale", "unknown", "done"]);
    let mut twice = verdicts[4..].to_vec();
    twice.sort();
    assert_eq!(twice, ["already", "done"], "a row that stands twice is done once");
    assert_eq!(stage.told(held[1].id).await, "running 1/0/0");
    assert_eq!(
        refusal(complete(stage.worker.client(), &Held { id: Uuid::from_u128(7), ..held[2].clone() }).await),
        "JF007 job_unknown"
    );
}

/// `number status log-lines` of a job's attempts, as its tenant reads them.
async fn attempts(stage: &Stage, id: Uuid) -> Vec<String> {
    let sql = "select number || ' ' || status || ' ' || coalesce(jsonb_array_length(log), 0)
               from jobforge.list_attempts($1, $2)";
    let rows = stage.app.query(sql, &[&TENANT_A, &id]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn live_notes(stage: &Stage) -> i64 {
    stage
        .count(
            "select (select count(*) from jobforge.attempts) + (select count(*) from jobforge.job_logs)
             + (select count(*) from jobforge.job_progress) + (select count(*) from jobforge.attempt_exits)",
        )
        .await
}

async fn log(stage: &Stage, job: &Held, lines: &[&str]) {
    let levels = vec!["info"; lines.len()];
    let sql = "select jobforge.append_log($1, $2, $3, $4, $5, $6)";
    stage
        .worker
        .query(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &levels, &lines])
        .await
        .unwrap();
}

#[tokio::test]
async fn attempts_and_logs_move_with_the_job_and_are_read_after_it_left() {
    let stage = Stage::set().await;
    let worker = stage.worker.client();
    let first = stage.running().await;
    log(&stage, &first, &["one", "two"]).await;
    fail(worker, &first, "retryable").await.unwrap();
    assert_eq!(attempts(&stage, first.id).await, ["1 failed 2"]);
    stage.pass(10.0).await;
    let second = next_claim(&stage).await;
    log(&stage, &second, &["three"]).await;
    assert_eq!(attempts(&stage, first.id).await, ["1 failed 2", "2 running 1"]);
    complete(worker, &second).await.unwrap();
    assert_eq!(attempts(&stage, first.id).await, ["1 failed 2", "2 succeeded 1"]);
    assert_eq!(live_notes(&stage).await, 0, "nothing stays behind");
}

#[tokio::test]
async fn the_notes_of_a_first_attempt_that_ended_badly_move_when_the_job_is_canceled() {
    let stage = Stage::set().await;
    let worker = stage.worker.client();
    stage.jobs(3).await;
    let held = stage.claim(3).await;
    fail(worker, &held[0], "retryable").await.unwrap();
    fail(worker, &held[1], "canceled").await.unwrap();
    stage.pass(31.0).await;
    stage.reap().await;
    for job in [&held[0], &held[2]] {
        stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();
    }
    assert_eq!(attempts(&stage, held[0].id).await, ["1 failed 0"]);
    assert_eq!(attempts(&stage, held[1].id).await, ["1 canceled 0"]);
    assert_eq!(attempts(&stage, held[2].id).await, ["1 lost 0"]);
    assert_eq!(live_notes(&stage).await, 0, "nothing stays behind");
}

#[tokio::test]
async fn a_release_by_a_stale_holder_changes_nothing() {
    let stage = Stage::set().await;
    let zombie = stage.running().await;
    stage.pass(31.0).await;
    stage.reap().await;
    stage.pass(3.0).await;
    let heir = rival_claim(&stage.rival, 1).await.remove(0);
    assert_eq!(release(stage.worker.client(), &zombie).await.unwrap(), "stale");
    assert_eq!(refusal(snooze(stage.worker.client(), &zombie, 1.0).await), "JF006 fence_stale");
    assert_eq!(stage.told(heir.id).await, "running 2/0/1");
}
