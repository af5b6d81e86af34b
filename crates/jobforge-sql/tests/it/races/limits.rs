//! Limits of what runs at once: reached, never exceeded, and in nobody else's way.

use uuid::Uuid;

use super::stage::{Stage, refusal};
use crate::schema::calls::{
    Claim, ClaimOptions, Held, claim_with, complete, enqueue_many, enqueue_with, fail, release, snooze,
};
use crate::schema::{NOOP, OTHER, QUEUE, TENANT_A, TENANT_B};

/// A claim of `w1` with everything it answers.
pub(super) async fn ask(stage: &Stage, limit: i32) -> Claim {
    claim_with(stage.worker.client(), "w1", limit, ClaimOptions::default()).await.unwrap()
}

/// The same by the rival.
async fn rival_asks(stage: &Stage, limit: i32) -> Claim {
    claim_with(stage.rival.client(), "w2", limit, ClaimOptions::default()).await.unwrap()
}

pub(super) fn of(jobs: &[Held], tenant: Uuid) -> usize {
    jobs.iter().filter(|job| job.tenant_id == tenant).count()
}

async fn enqueue(stage: &Stage, tenant: Uuid, kind: &str, count: i32) {
    enqueue_many(stage.app.client(), tenant, kind, count).await.unwrap();
}

#[tokio::test]
async fn a_tenants_limit_is_reached_and_not_exceeded_while_others_go_on() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_in_flight => 3").await;
    enqueue(&stage, TENANT_A, NOOP, 10).await;
    enqueue(&stage, TENANT_B, OTHER, 10).await;
    let first = ask(&stage, 12).await;
    assert_eq!((of(&first.jobs, TENANT_A), of(&first.jobs, TENANT_B), first.limited), (3, 9, true));
    let next = ask(&stage, 12).await;
    assert_eq!((of(&next.jobs, TENANT_A), of(&next.jobs, TENANT_B), next.limited), (0, 1, true));
    let last = rival_asks(&stage, 12).await;
    assert_eq!((last.jobs.len(), last.limited, last.more, last.retry_at), (0, true, false, None));
}

#[tokio::test]
async fn a_lane_that_is_named_twice_is_one_lane() {
    let stage = Stage::set().await;
    let twice =
        || ClaimOptions { queues: vec![QUEUE; 2], types: vec![NOOP, OTHER, NOOP], ..ClaimOptions::default() };
    let claimed = async |limit: i32| {
        let jobs = claim_with(stage.worker.client(), "w1", limit, twice()).await.unwrap().jobs;
        let mut ids: Vec<Uuid> = jobs.iter().map(|job| job.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), jobs.len(), "each once");
        jobs.len()
    };
    enqueue(&stage, TENANT_A, NOOP, 60).await;
    assert_eq!((claimed(20).await, claimed(50).await), (20, 40), "without a limit");
    stage.definition(NOOP, "p_rate_per_second => 1, p_rate_burst => 4").await;
    stage.definition(OTHER, "p_max_in_flight => 3").await;
    enqueue(&stage, TENANT_A, NOOP, 9).await;
    enqueue(&stage, TENANT_A, OTHER, 9).await;
    assert_eq!((claimed(20).await, claimed(20).await), (4 + 3, 0), "all that the limits let start");
}

#[tokio::test]
async fn every_end_of_a_run_makes_room_for_one() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_in_flight => 2").await;
    stage.jobs(20).await;
    let mut held = ask(&stage, 5).await.jobs;
    assert_eq!(held.len(), 2);
    for end in ["complete", "fail", "die", "snooze", "release", "cancel"] {
        let worker = stage.worker.client();
        let job = held.remove(0);
        match end {
            "complete" => drop(complete(worker, &job).await.unwrap()),
            "fail" => drop(fail(worker, &job, "retryable").await.unwrap()),
            "die" => drop(fail(worker, &job, "permanent").await.unwrap()),
            "snooze" => snooze(worker, &job, 60.0).await.unwrap(),
            "release" => drop(release(worker, &job).await.unwrap()),
            _ => {
                let sql = "select status from jobforge.cancel_job($1, $2)";
                stage.app.query(sql, &[&TENANT_A, &job.id]).await.unwrap();
                assert_eq!(ask(&stage, 5).await.jobs, [], "a job asked to cancel still runs");
                fail(worker, &job, "canceled").await.unwrap();
            }
        }
        let next = ask(&stage, 5).await;
        assert_eq!((next.jobs.len(), next.limited), (1, true), "after {end}");
        held.extend(next.jobs);
    }
    stage.pass(31.0).await;
    assert_eq!(ask(&stage, 5).await.jobs, [], "a lapsed lease still counts until it is reaped");
    assert_eq!(stage.reap().await.2, 2);
    assert_eq!(ask(&stage, 5).await.jobs.len(), 2, "after the reaper");
}

#[tokio::test]
async fn a_claim_that_is_not_over_keeps_the_second_claimer_from_counting() {
    for commits in [true, false] {
        let stage = Stage::set().await;
        stage.tenant(TENANT_A, "p_max_in_flight => 3").await;
        stage.jobs(10).await;
        enqueue(&stage, TENANT_B, NOOP, 2).await;
        stage.rival.run("set lock_timeout = '10s'").await;
        stage.worker.begin().await;
        assert_eq!(of(&ask(&stage, 2).await.jobs, TENANT_A), 1);
        let second = rival_asks(&stage, 10).await;
        assert_eq!((of(&second.jobs, TENANT_A), of(&second.jobs, TENANT_B)), (0, 1));
        assert!(second.limited && !second.more, "{second:?}");
        if commits {
            stage.worker.commit().await;
        } else {
            stage.worker.rollback().await;
        }
        let third = rival_asks(&stage, 10).await;
        assert_eq!(of(&third.jobs, TENANT_A), if commits { 2 } else { 3 }, "commits: {commits}");
    }
}

#[tokio::test]
async fn a_definitions_limit_holds_across_tenants_and_stops_no_other_type() {
    let stage = Stage::set().await;
    stage.definition(OTHER, "p_max_in_flight => 3").await;
    for tenant in [TENANT_A, TENANT_B] {
        enqueue(&stage, tenant, OTHER, 5).await;
        enqueue(&stage, tenant, NOOP, 5).await;
    }
    let of_type = |claim: &Claim, kind: &str| claim.jobs.iter().filter(|job| job.kind == kind).count();
    let first = ask(&stage, 20).await;
    assert_eq!((of_type(&first, OTHER), of_type(&first, NOOP), first.limited), (3, 10, true));
    let next = rival_asks(&stage, 20).await;
    assert_eq!((next.jobs.len(), next.limited), (0, true));
    let done = first.jobs.iter().find(|job| job.kind == OTHER).unwrap();
    complete(stage.worker.client(), done).await.unwrap();

    stage.worker.begin().await;
    assert_eq!(of_type(&ask(&stage, 20).await, OTHER), 1);
    enqueue(&stage, TENANT_B, NOOP, 2).await;
    let beside = rival_asks(&stage, 20).await;
    assert_eq!((of_type(&beside, OTHER), of_type(&beside, NOOP), beside.limited), (0, 2, true));
    stage.worker.rollback().await;
    assert_eq!(of_type(&rival_asks(&stage, 20).await, OTHER), 1);
}

#[tokio::test]
async fn where_both_have_a_limit_the_narrower_holds() {
    let stage = Stage::set().await;
    stage.definition(OTHER, "p_max_in_flight => 4").await;
    stage.tenant(TENANT_A, "p_max_in_flight => 3").await;
    enqueue(&stage, TENANT_A, OTHER, 10).await;
    assert_eq!(ask(&stage, 10).await.jobs.len(), 3);
    enqueue(&stage, TENANT_B, OTHER, 10).await;
    assert_eq!(ask(&stage, 10).await.jobs.len(), 1);
}

/// Reserved work and suspects come before everybody's turn, and count all the same.
#[tokio::test]
async fn reserved_work_and_suspects_of_a_limited_tenant_obey_its_limit() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_in_flight => 2").await;
    for _ in 0..4 {
        enqueue_with(stage.operator.client(), TENANT_A, NOOP, "p_priority => 5").await.unwrap();
    }
    let (other, _) = enqueue_with(stage.operator.client(), TENANT_B, NOOP, "p_priority => 9").await.unwrap();
    let first = ask(&stage, 10).await;
    assert_eq!((of(&first.jobs, TENANT_A), first.limited), (2, true), "with no ordinary work at all");
    assert_eq!(first.jobs.last().unwrap().id, other);
    assert_eq!(ask(&stage, 10).await.jobs, []);

    stage
        .meddle(
            "update jobforge.jobs set deaths = 2, fence = 2 where status = 'queued' and priority = 5",
            &[],
        )
        .await;
    let none = ask(&stage, 10).await;
    assert_eq!((none.jobs.len(), none.limited), (0, true), "suspects of a full tenant stay");
    complete(stage.worker.client(), &first.jobs[0]).await.unwrap();
    let suspect = ask(&stage, 10).await;
    assert_eq!((suspect.jobs.len(), suspect.jobs[0].solo), (1, true));
    complete(stage.worker.client(), &first.jobs[1]).await.unwrap();
    assert_eq!(rival_asks(&stage, 10).await.jobs.len(), 1, "the running suspect counts");
    stage.jobs(3).await;
    assert_eq!(rival_asks(&stage, 10).await.jobs, []);
}

#[tokio::test]
async fn of_limited_work_no_more_is_taken_than_can_start_at_once() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_in_flight => 8").await;
    enqueue(&stage, TENANT_A, NOOP, 20).await;
    enqueue_with(stage.operator.client(), TENANT_A, NOOP, "p_priority => 5").await.unwrap();
    enqueue(&stage, TENANT_B, NOOP, 20).await;
    let claim = async |limit, free| {
        let o = ClaimOptions { free: Some(free), ..ClaimOptions::default() };
        claim_with(stage.worker.client(), "w1", limit, o).await
    };
    for (free, wanted) in [(0, (0, 5)), (2, (2, 3)), (1, (1, 4)), (9, (3, 2))] {
        let jobs = claim(5, free).await.unwrap().jobs;
        assert_eq!((of(&jobs, TENANT_A), of(&jobs, TENANT_B)), wanted, "free: {free}");
    }
    assert_eq!(refusal(claim(5, -1).await), "JF001 free_out_of_range");
    assert_eq!(of(&claim(5, 5).await.unwrap().jobs, TENANT_A), 2);
}

/// One short story: the verbs have their own.
#[tokio::test]
async fn what_is_paused_starts_nothing_and_costs_the_others_nothing() {
    let stage = Stage::set().await;
    enqueue(&stage, TENANT_A, NOOP, 3).await;
    enqueue(&stage, TENANT_A, OTHER, 3).await;
    for _ in 0..3 {
        enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_queue => 'mail'").await.unwrap();
    }
    let both = || ClaimOptions { queues: vec!["default", "mail"], ..ClaimOptions::default() };
    stage.operate("select jobforge.pause('queue', 'mail')").await;
    stage.operate(&format!("select jobforge.pause('definition', '{OTHER}')")).await;
    let first = claim_with(stage.worker.client(), "w1", 4, both()).await.unwrap();
    assert_eq!(first.jobs.len(), 3);
    assert!(first.jobs.iter().all(|job| job.kind == NOOP));
    assert_eq!(stage.claim(4).await, []);
    stage.operate("select jobforge.resume('queue', 'mail')").await;
    assert_eq!(claim_with(stage.worker.client(), "w1", 9, both()).await.unwrap().jobs.len(), 3);
    stage.operate(&format!("select jobforge.resume('definition', '{OTHER}')")).await;
    assert_eq!(stage.claim(9).await.len(), 3);
}

/// An application that is about to cancel the first jobs must not keep a limited tenant from its next ones.
#[tokio::test]
async fn jobs_that_somebody_holds_are_passed_by() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_in_flight => 1").await;
    let jobs = stage.jobs(3).await;
    stage.app.begin().await;
    let sql = "select status from jobforge.cancel_job($1, $2)";
    let mut first = jobs.clone();
    first.sort();
    for id in &first[..2] {
        stage.app.query(sql, &[&TENANT_A, id]).await.unwrap();
    }
    assert_eq!(ask(&stage, 1).await.jobs[0].id, first[2]);
    stage.app.rollback().await;
}

/// A full tenant has no moment to tell; the type whose rate is spent has one, and it is not forgotten.
#[tokio::test]
async fn of_two_limits_the_one_that_knows_when_tells() {
    let stage = Stage::set().await;
    stage.tenant(TENANT_A, "p_max_in_flight => 1").await;
    stage.definition(OTHER, "p_rate_per_second => 1").await;
    enqueue(&stage, TENANT_A, NOOP, 3).await;
    enqueue(&stage, TENANT_B, OTHER, 3).await;
    assert_eq!(ask(&stage, 9).await.jobs.len(), 2);
    let none = ask(&stage, 9).await;
    let wait = none.retry_at.unwrap() - stage.now().await;
    assert!(none.jobs.is_empty() && (wait - 1.0).abs() < 0.00001, "{none:?}");
}
