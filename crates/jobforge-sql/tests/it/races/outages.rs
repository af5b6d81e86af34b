//! An outage is nobody's death, a change of leaders is no outage, and a term that is over can do nothing.

use super::stage::{Stage, reap, refusal};
use crate::schema::calls::{beat, complete};

#[tokio::test]
async fn after_a_gap_in_all_signs_of_life_leases_are_extended_before_any_is_reaped() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.lose(120.0).await;

    let term = stage.lead("leader").await.unwrap();
    assert_eq!(reap(&stage.operator, term, 100).await.unwrap(), (0, 0, 0));
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
}

#[tokio::test]
async fn a_workers_beat_that_comes_first_after_an_outage_finds_its_lease_alive() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.lose(120.0).await;

    assert_eq!(beat(stage.worker.client(), job.lease_id, std::slice::from_ref(&job)).await.unwrap(), []);
    let term = stage.lead("leader").await.unwrap();
    assert_eq!(reap(&stage.operator, term, 100).await.unwrap(), (0, 0, 0));
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
}

#[tokio::test]
async fn an_outage_revives_no_lease_that_was_dead_when_it_began() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.pass(31.0).await;
    stage.lose(120.0).await;

    assert_eq!(refusal(beat(stage.worker.client(), job.lease_id, &[]).await), "JF006 lease_lost");
    let term = stage.lead("leader").await.unwrap();
    assert_eq!(reap(&stage.operator, term, 100).await.unwrap(), (1, 0, 1));
}

#[tokio::test]
async fn a_new_start_of_the_server_is_an_outage_however_short() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.pass(29.0).await;
    stage
        .meddle("update jobforge.leader set server_started_at = server_started_at - interval '1 day'", &[])
        .await;
    stage.lose(2.0).await;

    assert_eq!(stage.reap().await, (0, 0, 0));
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
}

#[tokio::test]
async fn a_leader_change_alone_delays_no_reaping() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    // The leader falls silent; the one that waits for its place keeps asking.
    let mut term = None;
    for _ in 0..8 {
        stage.lose(4.0).await;
        term = stage.lead("successor").await;
    }
    let term = term.expect("the silent leader is replaced");
    assert_eq!(term, stage.term + 1);
    assert_eq!(reap(&stage.operator, term, 100).await.unwrap(), (1, 0, 1));
    assert_eq!(stage.told(job.id).await, "queued 1/0/1");
}

#[tokio::test]
async fn a_term_that_is_over_is_refused_for_every_duty() {
    let stage = Stage::set().await;
    stage.running().await;
    let old = stage.term;
    for _ in 0..8 {
        stage.lose(4.0).await;
        stage.lead("successor").await;
    }
    for duty in ["reap", "promote_due", "prune", "upkeep_partitions", "sample_stats"] {
        let sql = format!("select * from jobforge.{duty}($1)");
        assert_eq!(refusal(stage.operator.query(&sql, &[&old]).await), "JF006 term_over", "{duty}");
    }
    assert_eq!(stage.count("select count(*) from jobforge.jobs where status = 'running'").await, 1);
}

#[tokio::test]
async fn a_leader_that_slept_through_its_own_term_is_refused_though_nobody_followed() {
    let stage = Stage::set().await;
    stage.lose(11.0).await;
    assert_eq!(refusal(reap(&stage.operator, stage.term, 1).await), "JF006 term_over");
    assert_eq!(stage.lead("leader").await, Some(stage.term + 1), "taking it anew is a new term");
}
