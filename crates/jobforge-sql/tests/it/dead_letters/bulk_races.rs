//! Operations in a race: two that step, a claim and an undo, jobs that move on between the look and the lock.

use jobforge_testkit::{Param, Running};
use uuid::Uuid;

use super::cast::{STEP, UNDO, told};
use crate::races::stage::{Stage, ids};
use crate::schema::TENANT_A;
use crate::schema::calls::{ClaimOptions, act_for, claim, claim_with, complete, complete_many};

const ALL_DEAD: &str = r#"'redrive', '{"statuses": ["failed", "dead"]}'"#;

/// The next step of an operation by another session; it must wait for somebody.
async fn step_waiting(stage: &Stage, operation: Uuid, limit: i32) -> Running {
    let params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(operation), Box::new(limit)];
    stage.an_app().await.spawn_blocked(STEP, params).await
}

async fn stepped(running: Running) -> String {
    let (_, rows) = running.finish().await;
    told(&rows.unwrap()[0])
}

#[tokio::test]
async fn two_that_step_do_no_job_twice() {
    let stage = Stage::set().await;
    for _ in 0..4 {
        stage.dead().await;
    }
    let operation = stage.start(ALL_DEAD).await.unwrap();
    stage.app.begin().await;
    assert_eq!(stage.step(operation, 2).await, "running 2/0 0/0");
    let second = step_waiting(&stage, operation, 2).await;
    assert_eq!(second.blocked_by().await, [stage.app.pid()]);
    stage.app.commit().await;
    assert_eq!(stepped(second).await, "running 4/0 0/0", "where the first ended");
    assert_eq!(stage.step(operation, 2).await, "finished 4/0 0/0");
    assert_eq!(stage.results(operation).await.len(), 4);
}

#[tokio::test]
async fn a_step_that_is_rolled_back_is_done_by_the_next() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    let operation = stage.start(ALL_DEAD).await.unwrap();
    stage.app.begin().await;
    stage.step(operation, 10).await;
    stage.app.rollback().await;
    assert_eq!(stage.told(id).await, "failed 1/1/0");
    assert_eq!(stage.step(operation, 10).await, "finished 1/0 0/0");
}

#[tokio::test]
async fn a_claim_before_an_undo_keeps_its_job() {
    let stage = Stage::set().await;
    let (first, second) = (stage.dead().await, stage.dead().await);
    let operation = stage.start(ALL_DEAD).await.unwrap();
    stage.step(operation, 10).await;
    stage.worker.begin().await;
    let held = claim(stage.worker.client(), "w1", 1).await.unwrap();
    assert_eq!(ids(&held), [first]);
    let params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(operation), Box::new(10)];
    let undo = stage.an_app().await.spawn_blocked(UNDO, params).await;
    stage.worker.commit().await;
    let (_, rows) = undo.finish().await;
    assert_eq!(told(&rows.unwrap()[0]), "undone 2/0 1/1");
    assert_eq!(
        (stage.told(first).await, stage.told(second).await),
        ("running 2/0/0".into(), "failed 1/1/0".into())
    );
    assert_eq!(stage.results(operation).await[0], (first, "kept JF008 job_running".to_owned()));
}

#[tokio::test]
async fn a_claim_during_an_undo_passes_by() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    let operation = stage.start(ALL_DEAD).await.unwrap();
    stage.step(operation, 10).await;
    stage.app.begin().await;
    assert_eq!(stage.undo(operation, 10).await.unwrap(), "undone 1/0 1/0");
    let during = claim_with(stage.worker.client(), "w1", 5, ClaimOptions::default()).await.unwrap();
    assert!(during.jobs.is_empty());
    stage.app.commit().await;
    assert!(claim(stage.worker.client(), "w1", 5).await.unwrap().is_empty());
    assert_eq!(stage.told(id).await, "failed 1/1/0");
}

#[tokio::test]
async fn a_job_that_starts_before_the_lock_is_not_canceled_as_a_waiting_one() {
    let stage = Stage::set().await;
    let first = stage.job().await;
    stage.tick().await;
    let second = stage.job().await;
    let operation = stage.start(r#"'cancel', '{"statuses": ["queued"]}'"#).await.unwrap();
    stage.worker.begin().await;
    assert_eq!(ids(&claim(stage.worker.client(), "w1", 1).await.unwrap()), [first]);
    let step = step_waiting(&stage, operation, 10).await;
    stage.worker.commit().await;
    assert_eq!(stepped(step).await, "finished 1/1 0/0");
    let wanted = [(first, "skipped JF008 job_running"), (second, "canceled")];
    assert_eq!(stage.results(operation).await, wanted.map(|(id, told)| (id, told.to_owned())));
    assert!(!stage.row(first).await["cancel_at"].is_string(), "it was not asked to stop");
}

/// A filter that only dead letters have an answer to speaks of them alone, whatever became of one since.
#[tokio::test]
async fn a_dead_letter_that_is_retried_before_the_lock_is_not_canceled() {
    let stage = Stage::set().await;
    let retried = stage.dead_with("'{}'", "permanent", "disk full").await;
    stage.tick().await;
    let dead = stage.dead_with("'{}'", "permanent", "disk full").await;
    let operation = stage.start(r#"'cancel', '{"finished_before": "2100-01-01T00:00:00Z"}'"#).await.unwrap();
    act_for(stage.other.client(), TENANT_A).await.unwrap();
    stage.other.begin().await;
    stage.other.query("select jobforge.retry_job($1, $2)", &[&TENANT_A, &retried]).await.unwrap();
    let step = step_waiting(&stage, operation, 10).await;
    stage.other.commit().await;
    assert_eq!(stepped(step).await, "finished 1/1 0/0");
    let wanted = [(retried, "skipped JF008 job_queued"), (dead, "canceled")];
    assert_eq!(stage.results(operation).await, wanted.map(|(id, told)| (id, told.to_owned())));
}

const ALL_LIVE: &str = r#"'cancel', '{"statuses": ["queued", "running"]}'"#;

#[tokio::test]
async fn a_cancel_that_meets_a_completion_waits_and_finds_the_job_over() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let operation = stage.start(ALL_LIVE).await.unwrap();
    stage.worker.begin().await;
    complete(stage.worker.client(), &job).await.unwrap();
    let step = step_waiting(&stage, operation, 10).await;
    assert_eq!(step.blocked_by().await, [stage.worker.pid()]);
    stage.worker.commit().await;
    assert_eq!(stepped(step).await, "finished 0/1 0/0");
    assert_eq!(stage.results(operation).await, [(job.id, "skipped JF008 job_succeeded".to_owned())]);
    assert_eq!(stage.told(job.id).await, "succeeded 1/0/0");
}

#[tokio::test]
async fn a_completion_that_meets_a_cancel_waits_and_is_done() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let operation = stage.start(ALL_LIVE).await.unwrap();
    stage.app.begin().await;
    assert_eq!(stage.step(operation, 10).await, "finished 1/0 0/0");
    let sql = "select jobforge.complete_job($1, $2, $3, $4)";
    let params: Vec<Param> =
        vec![Box::new(job.lease_id), Box::new(job.tenant_id), Box::new(job.id), Box::new(job.fence)];
    let report = stage.a_worker().await.spawn_blocked(sql, params).await;
    stage.app.commit().await;
    let (_, rows) = report.finish().await;
    assert_eq!(rows.unwrap()[0].get::<_, String>(0), "done");
    assert_eq!(stage.results(operation).await, [(job.id, "cancel_requested".to_owned())]);
    assert_eq!(stage.told(job.id).await, "succeeded 1/0/0", "it was asked to stop, and was through already");
}

/// A completion takes jobs in the order of their places, a cancel in that of their ids: neither waits for the other while
/// it holds what that one wants.
#[tokio::test]
async fn a_step_that_holds_jobs_waits_for_no_other() {
    let stage = Stage::set().await;
    for _ in 0..3 {
        stage.tick().await;
        stage.job().await;
    }
    let held = stage.claim(3).await;
    let operation = stage.start(ALL_LIVE).await.unwrap();
    stage.other.begin().await;
    stage.other.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &held[1].id]).await.unwrap();
    stage.app.run("set lock_timeout = '10s'").await;
    assert_eq!(stage.step(operation, 10).await, "running 1/0 0/0", "it ends before the job in other hands");
    let step = step_waiting(&stage, operation, 10).await;
    assert_eq!(step.blocked_by().await, [stage.other.pid()], "and the next one begins with it");
    stage.rival.run("set lock_timeout = '10s'").await;
    let ends = [held[0].clone(), held[2].clone()];
    assert_eq!(complete_many(stage.rival.client(), &ends).await.unwrap(), ["done", "done"]);
    stage.other.commit().await;
    assert_eq!(stepped(step).await, "finished 2/1 0/0");
    let wanted = ["cancel_requested", "cancel_requested", "skipped JF008 job_succeeded"];
    let results = stage.results(operation).await;
    assert_eq!(
        results,
        held.iter().zip(wanted).map(|(job, told)| (job.id, told.to_owned())).collect::<Vec<_>>()
    );
}

/// What a killed process leaves of a step is nothing: whoever goes on does all of it.
#[tokio::test]
async fn a_step_whose_session_was_killed_is_done_by_the_next() {
    let stage = Stage::set().await;
    let (first, second) = (stage.dead().await, stage.dead().await);
    let operation = stage.start(ALL_DEAD).await.unwrap();
    assert_eq!(stage.step(operation, 1).await, "running 1/0 0/0");
    stage.other.begin().await;
    stage.other.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &second]).await.unwrap();
    let session = stage.an_app().await;
    let pid = session.pid();
    let params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(operation), Box::new(10)];
    let killed = session.spawn_blocked(STEP, params).await;
    stage.count(&format!("select pg_terminate_backend({pid})::integer::bigint")).await;
    let (_, gone) = killed.finish().await;
    assert!(gone.is_err());
    stage.other.rollback().await;
    assert_eq!(stage.told(second).await, "failed 1/1/0");
    assert_eq!(stage.step(operation, 10).await, "finished 2/0 0/0");
    let redriven = [first, second].map(|id| (id, "redriven".to_owned()));
    assert_eq!(stage.results(operation).await, redriven);
}
