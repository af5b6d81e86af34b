//! Operations in a race: two that step, a claim and an undo, jobs that move on between the look and the lock.

use jobforge_testkit::Param;

use super::cast::{STEP, UNDO, told};
use crate::races::stage::{Stage, ids};
use crate::schema::TENANT_A;
use crate::schema::calls::{ClaimOptions, claim, claim_with};

const ALL_DEAD: &str = r#"'redrive', '{"statuses": ["failed", "dead"]}'"#;

#[tokio::test]
async fn two_that_step_do_no_job_twice() {
    let stage = Stage::set().await;
    for _ in 0..4 {
        stage.dead().await;
    }
    let operation = stage.start(ALL_DEAD).await.unwrap();
    stage.app.begin().await;
    assert_eq!(stage.step(operation, 2).await, "running 2/0 0/0");
    let params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(operation), Box::new(2)];
    let second = stage.an_app().await.spawn_blocked(STEP, params).await;
    assert_eq!(second.blocked_by().await, [stage.app.pid()]);
    stage.app.commit().await;
    let (_, rows) = second.finish().await;
    assert_eq!(told(&rows.unwrap()[0]), "running 4/0 0/0", "where the first ended");
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
    let params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(operation), Box::new(10)];
    let step = stage.an_app().await.spawn_blocked(STEP, params).await;
    stage.worker.commit().await;
    let (_, rows) = step.finish().await;
    assert_eq!(told(&rows.unwrap()[0]), "finished 1/1 0/0");
    let wanted = [(first, "skipped JF008 job_running"), (second, "canceled")];
    assert_eq!(stage.results(operation).await, wanted.map(|(id, told)| (id, told.to_owned())));
    assert!(!stage.row(first).await["cancel_at"].is_string(), "it was not asked to stop");
}
