//! A dead letter comes back on the terms of an enqueue: of a type that is switched on, while more may wait.

use uuid::Uuid;

use super::cast::list;
use crate::races::stage::{Stage, refusal};
use crate::schema::calls::enqueue_with;
use crate::schema::{NOOP, OTHER, TENANT_A};

const OFF: &str = "skipped JF002 inactive_definition";
const FULL: &str = "skipped JF005 max_pending";

async fn retry(stage: &Stage, id: Uuid) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    stage.app.query("select status from jobforge.retry_job($1, $2)", &[&TENANT_A, &id]).await
}

fn told(ids: &[Uuid], verdicts: &[&str]) -> Vec<(Uuid, String)> {
    ids.iter().zip(verdicts).map(|(id, verdict)| (*id, (*verdict).to_owned())).collect()
}

/// A dead letter of the type that a story switches off.
async fn dead_other(stage: &Stage) -> Uuid {
    stage.tick().await;
    enqueue_with(stage.app.client(), TENANT_A, OTHER, "'{}'").await.unwrap();
    let job = stage.claim(1).await.remove(0);
    stage.end(&job, "permanent", "told to fail").await;
    job.id
}

#[tokio::test]
async fn a_type_that_is_switched_off_keeps_its_dead_letters_and_the_neighbours_go_on() {
    let stage = Stage::set().await;
    let ids = [stage.dead().await, dead_other(&stage).await];
    stage.definition(OTHER, "p_is_active => false").await;
    let before = stage.row(ids[1]).await;
    let dry = stage.redrive(&format!("{}, p_dry_run => true", list(&ids))).await;
    assert_eq!(dry, told(&ids, &["redrivable", OFF]));
    assert_eq!(stage.redrive(&list(&ids)).await, told(&ids, &["redriven", OFF]));
    assert_eq!(refusal(retry(&stage, ids[1]).await), "JF002 inactive_definition");
    let operation = stage.start(&format!("'redrive', '{{\"type\": \"{OTHER}\"}}'")).await.unwrap();
    assert_eq!(stage.step(operation, 10).await, "finished 0/1 0/0");
    assert_eq!(stage.row(ids[1]).await, before, "a skipped job is as it was");

    stage.definition(OTHER, "p_is_active => true").await;
    assert_eq!(stage.redrive(&list(&ids[1..])).await, told(&ids[1..], &["redriven"]));
}

#[tokio::test]
async fn what_waits_is_run_now_though_its_type_is_switched_off_and_nothing_more_may_wait() {
    let stage = Stage::set().await;
    let later = "p_run_at => jobforge.clock() + interval '1 hour'";
    let (waiting, _) = enqueue_with(stage.app.client(), TENANT_A, NOOP, later).await.unwrap();
    stage.definition(NOOP, "p_is_active => false").await;
    stage.tenant(TENANT_A, "p_max_pending => 1").await;
    retry(&stage, waiting).await.unwrap();
    assert!(stage.see(waiting).await.ready);
}

#[tokio::test]
async fn no_more_go_back_than_may_wait() {
    let stage = Stage::set().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(stage.dead().await);
    }
    stage.job().await;
    stage.tenant(TENANT_A, "p_max_pending => 3").await;
    let before = stage.row(ids[2]).await;
    let dry = stage.redrive(&format!("{}, p_dry_run => true", list(&ids))).await;
    assert_eq!(dry, told(&ids, &["redrivable", "redrivable", FULL, FULL]));
    assert_eq!(stage.redrive(&list(&ids)).await, told(&ids, &["redriven", "redriven", FULL, FULL]));
    assert_eq!(stage.row(ids[2]).await, before, "a skipped job is as it was");
    assert_eq!(refusal(retry(&stage, ids[2]).await), "JF005 max_pending");
    let operation = stage.start(r#"'redrive', '{"queue": "default"}'"#).await.unwrap();
    assert_eq!(stage.step(operation, 10).await, "finished 0/2 0/0");

    // What starts waits no longer.
    assert_eq!(stage.claim(1).await.len(), 1);
    assert_eq!(stage.redrive(&list(&ids[2..])).await, told(&ids[2..], &["redriven", FULL]));
    stage.tenant(TENANT_A, "p_clear => '{max_pending}'").await;
    retry(&stage, ids[3]).await.unwrap();
    assert_eq!(stage.told(ids[3]).await, "queued 1/0/0");
}

/// A skipped row takes no room from those behind it.
#[tokio::test]
async fn what_is_skipped_takes_no_room() {
    let stage = Stage::set().await;
    let first = stage.dead_with("'{}', p_dedupe_key => 'a'", "permanent", "x").await;
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_dedupe_key => 'a'").await.unwrap();
    let second = stage.dead_with("'{}', p_priority => 10", "permanent", "x").await;
    stage.tenant(TENANT_A, "p_max_pending => 2").await;
    let done = stage.redrive(&list(&[first, second])).await;
    assert_eq!(done, told(&[first, second], &["skipped JF008 dedupe_twin_alive", "redriven"]));
}
