//! Rates: a bucket that fills by the clock. The clock of these stories stands, so that the counts are exact.

use super::limits::{ask, of};
use super::stage::Stage;
use crate::schema::calls::{enqueue_many, enqueue_with};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B};

async fn backlog(stage: &Stage, count: i32) {
    enqueue_many(stage.app.client(), TENANT_A, NOOP, count).await.unwrap();
}

/// What starts in 20 s of a clock that goes on by these steps, round and round.
async fn starts_in_20_s(stage: &Stage, steps: &[f64]) -> usize {
    let end = stage.now().await + 20.0;
    let mut starts = 0;
    for step in steps.iter().cycle() {
        starts += ask(stage, 100).await.jobs.len();
        if stage.now().await + step > end {
            return starts;
        }
        stage.lose(*step).await;
    }
    starts
}

#[tokio::test]
async fn a_tenants_rate_is_kept_by_whoever_comes_when_he_is_told() {
    let stage = Stage::set().await;
    backlog(&stage, 600).await;
    stage.tenant(TENANT_A, "p_rate_per_second => 50").await;
    let begun = stage.now().await;
    let mut starts = ask(&stage, 100).await.jobs.len();
    assert_eq!(starts, 6, "a tenth of a second's worth, and one");
    let mut claims = 0;
    loop {
        let none = ask(&stage, 100).await;
        assert_eq!((none.jobs.len(), none.limited), (0, true), "a token too early");
        let retry_at = none.retry_at.unwrap();
        if retry_at > begun + 5.0 {
            break;
        }
        stage.lose(retry_at - stage.now().await).await;
        let some = ask(&stage, 100).await;
        claims += 1;
        assert_eq!(some.jobs.len(), 1, "at {retry_at}, after {claims} claims");
        starts += 1;
        let next = some.retry_at.unwrap() - retry_at;
        assert!((next - 0.02).abs() < 0.000_002, "the next token is {next} s away");
    }
    assert!((255..=256).contains(&starts), "{starts} in 5 s at 50 a second after 6 at once");
}

#[tokio::test]
async fn a_rate_is_kept_whenever_the_claims_come() {
    for (who, steps) in [("tenant", vec![0.1]), ("definition", vec![0.013, 0.1, 0.0007, 0.099, 0.05, 0.031])]
    {
        let stage = Stage::set().await;
        backlog(&stage, 1200).await;
        match who {
            "tenant" => stage.tenant(TENANT_A, "p_rate_per_second => 50").await,
            _ => stage.definition(NOOP, "p_rate_per_second => 50").await,
        }
        let starts = starts_in_20_s(&stage, &steps).await;
        assert!((980..=1020).contains(&starts), "{who}: {starts} starts in 20 s at 50 a second");
    }
}

#[tokio::test]
async fn a_burst_is_what_may_start_at_once_after_a_rest() {
    let stage = Stage::set().await;
    backlog(&stage, 200).await;
    stage.tenant(TENANT_A, "p_rate_per_second => 2, p_rate_burst => 20").await;
    assert_eq!(ask(&stage, 100).await.jobs.len(), 20);
    stage.pass(3.0).await;
    assert_eq!(ask(&stage, 100).await.jobs.len(), 6);
    stage.pass(3600.0).await;
    assert_eq!(ask(&stage, 100).await.jobs.len(), 20, "a bucket holds no more than its burst");
}

#[tokio::test]
async fn a_changed_rate_holds_at_once_and_one_taken_away_is_gone() {
    let stage = Stage::set().await;
    backlog(&stage, 300).await;
    stage.definition(NOOP, "p_rate_per_second => 1").await;
    assert_eq!(ask(&stage, 100).await.jobs.len(), 1);
    let slow = ask(&stage, 100).await.retry_at.unwrap() - stage.now().await;
    assert!((slow - 1.0).abs() < 0.00001, "{slow}");
    stage.definition(NOOP, "p_rate_per_second => 100").await;
    let quick = ask(&stage, 100).await.retry_at.unwrap() - stage.now().await;
    assert!((quick - 0.01).abs() < 0.00001, "{quick}");
    stage.lose(1.0).await;
    assert_eq!(ask(&stage, 100).await.jobs.len(), 11);
    stage.definition(NOOP, "p_clear => '{rate}'").await;
    assert_eq!(ask(&stage, 100).await.jobs.len(), 100);
}

#[tokio::test]
async fn a_spent_rate_stops_neither_others_nor_escapes_reserved_work() {
    let stage = Stage::set().await;
    backlog(&stage, 10).await;
    stage.tenant(TENANT_A, "p_rate_per_second => 0.5").await;
    enqueue_many(stage.app.client(), TENANT_B, OTHER, 3).await.unwrap();
    enqueue_with(stage.operator.client(), TENANT_A, NOOP, "p_priority => 5").await.unwrap();
    enqueue_with(stage.operator.client(), TENANT_A, NOOP, "p_priority => 6").await.unwrap();
    let claim = ask(&stage, 10).await;
    assert_eq!((of(&claim.jobs, TENANT_A), of(&claim.jobs, TENANT_B)), (1, 3));
    assert_eq!(claim.jobs[0].priority, 5);
    stage.lose(1.9).await;
    assert_eq!(ask(&stage, 10).await.jobs, []);
    stage.lose(0.1).await;
    assert_eq!(ask(&stage, 10).await.jobs.iter().map(|job| job.priority).collect::<Vec<_>>(), [6]);
}
