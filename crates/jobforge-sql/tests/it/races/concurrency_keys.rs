//! Concurrency keys: of a tenant's jobs with one key, one at a time, whatever their types.

use uuid::Uuid;

use super::limits::ask;
use super::stage::Stage;
use crate::schema::calls::{ClaimOptions, Held, claim_with, complete, enqueue_with, fail};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B};

async fn keyed(stage: &Stage, tenant: Uuid, kind: &str, key: &str) -> Uuid {
    // Of jobs of one moment chance decides which is the first.
    stage.lose(0.001).await;
    let extra = format!("p_concurrency_key => '{key}'");
    enqueue_with(stage.app.client(), tenant, kind, &extra).await.unwrap().0
}

fn sorted(jobs: &[Held]) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = jobs.iter().map(|job| job.id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn one_at_a_time_of_a_key_across_types_and_nobody_waits_behind_it() {
    let stage = Stage::set().await;
    let first = keyed(&stage, TENANT_A, NOOP, "k").await;
    let second = keyed(&stage, TENANT_A, OTHER, "k").await;
    let third = keyed(&stage, TENANT_A, NOOP, "k").await;
    let other_key = keyed(&stage, TENANT_A, NOOP, "l").await;
    let (plain, _) = enqueue_with(stage.app.client(), TENANT_A, NOOP, "'{}'").await.unwrap();
    let twin = keyed(&stage, TENANT_B, NOOP, "k").await;
    let claim = ask(&stage, 10).await;
    let mut wanted = [first, other_key, plain, twin];
    wanted.sort();
    assert_eq!(sorted(&claim.jobs), wanted, "another tenant's key is another key");
    let mut running = claim.jobs.into_iter().find(|job| job.id == first).unwrap();
    for next in [second, third] {
        let none = ask(&stage, 10).await;
        assert_eq!(none.jobs, []);
        complete(stage.worker.client(), &running).await.unwrap();
        let claim = ask(&stage, 10).await;
        assert_eq!(sorted(&claim.jobs), [next]);
        running = claim.jobs[0].clone();
    }
}

/// The claim that finds a job due is the one that takes it, also where it is the only job with a key.
#[tokio::test]
async fn a_job_with_a_key_is_taken_by_the_claim_that_finds_it_due() {
    for limited in [false, true] {
        let stage = Stage::set().await;
        if limited {
            stage.tenant(TENANT_A, "p_max_in_flight => 4").await;
        }
        let later = "p_concurrency_key => 'k', p_run_at => jobforge.clock() + interval '5 seconds'";
        let (id, _) = enqueue_with(stage.app.client(), TENANT_A, NOOP, later).await.unwrap();
        assert_eq!(ask(&stage, 3).await.jobs, []);
        stage.lose(5.0).await;
        assert_eq!(sorted(&ask(&stage, 3).await.jobs), [id], "with a limit: {limited}");
    }
}

#[tokio::test]
async fn a_claim_that_is_not_over_holds_its_keys() {
    for commits in [true, false] {
        let stage = Stage::set().await;
        stage.rival.run("set lock_timeout = '10s'").await;
        for _ in 0..3 {
            keyed(&stage, TENANT_A, NOOP, "k").await;
        }
        stage.worker.begin().await;
        assert_eq!(ask(&stage, 10).await.jobs.len(), 1);
        let rival =
            async || claim_with(stage.rival.client(), "w2", 10, ClaimOptions::default()).await.unwrap();
        let beside = rival().await;
        assert_eq!((beside.jobs.len(), beside.limited), (0, true));
        if commits {
            stage.worker.commit().await;
        } else {
            stage.worker.rollback().await;
        }
        assert_eq!(rival().await.jobs.len(), usize::from(!commits));
    }
}

#[tokio::test]
async fn a_type_may_run_more_than_one_of_a_key() {
    let stage = Stage::set().await;
    stage.definition(NOOP, "p_max_in_flight_per_key => 2").await;
    for _ in 0..5 {
        keyed(&stage, TENANT_A, NOOP, "k").await;
    }
    let jobs = ask(&stage, 10).await.jobs;
    assert_eq!(jobs.len(), 2);
    fail(stage.worker.client(), &jobs[0], "permanent").await.unwrap();
    assert_eq!(ask(&stage, 10).await.jobs.len(), 1);
    stage.definition(NOOP, "p_max_in_flight_per_key => 3").await;
    assert_eq!(ask(&stage, 10).await.jobs.len(), 1);
    // Those of another type count, and of it one may run.
    keyed(&stage, TENANT_A, OTHER, "k").await;
    assert_eq!(ask(&stage, 10).await.jobs, []);
}

/// A claim looks at a hundred keys; the next one at the next.
#[tokio::test]
async fn of_many_keys_each_gets_its_turn() {
    let stage = Stage::set().await;
    let sql = "select count(*) from jobforge.enqueue_jobs($1, array_fill('test.noop'::text, array[500]),
        array_fill('{}'::jsonb, array[500]),
        p_concurrency_keys => array(select 'k' || n % 250 from generate_series(0, 499) as n))";
    stage.app.query(sql, &[&TENANT_A]).await.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for limit in [40, 40, 40, 40, 100, 100, 100, 100] {
        for job in ask(&stage, limit).await.jobs {
            let sql = "select concurrency_key from jobforge.jobs where id = $1";
            let key: String = stage.admin.query_one(sql, &[&job.id]).await.unwrap().get(0);
            assert!(seen.insert(key.clone()), "{key} runs twice");
        }
    }
    assert_eq!(seen.len(), 250, "every key runs once, also those behind busy ones");
    let none = ask(&stage, 100).await;
    assert_eq!((none.jobs.len(), none.limited), (0, true));
}

/// A key that never comes again leaves nothing behind.
#[tokio::test]
async fn what_was_counted_of_a_key_is_pruned_after_its_run() {
    let stage = Stage::set().await;
    for key in ["k", "l"] {
        keyed(&stage, TENANT_A, NOOP, key).await;
    }
    let jobs = ask(&stage, 10).await.jobs;
    complete(stage.worker.client(), &jobs[0]).await.unwrap();
    stage.operator.query("select * from jobforge.prune($1)", &[&stage.term]).await.unwrap();
    assert_eq!(stage.count("select count(*) from jobforge.limited_runs").await, 1, "the one that runs still");
}

#[tokio::test]
async fn a_key_holds_for_reserved_work_too() {
    let stage = Stage::set().await;
    let urgent = "p_priority => 3, p_concurrency_key => 'k'";
    keyed(&stage, TENANT_A, NOOP, "k").await;
    let (first, _) = enqueue_with(stage.operator.client(), TENANT_A, NOOP, urgent).await.unwrap();
    stage.lose(0.001).await;
    enqueue_with(stage.operator.client(), TENANT_A, OTHER, urgent).await.unwrap();
    let jobs = ask(&stage, 10).await.jobs;
    assert_eq!(sorted(&jobs), [first]);
    assert_eq!(ask(&stage, 10).await.jobs, []);
}

#[tokio::test]
async fn a_key_holds_for_a_suspect_before_it_and_behind_it() {
    let stage = Stage::set().await;
    keyed(&stage, TENANT_A, NOOP, "k").await;
    let job = ask(&stage, 1).await.jobs.remove(0);
    let suspect = keyed(&stage, TENANT_A, NOOP, "k").await;
    stage.meddle("update jobforge.jobs set deaths = 2, fence = 2 where id = $1", &[&suspect]).await;
    let none = ask(&stage, 10).await;
    assert_eq!(
        (none.jobs.len(), none.limited),
        (0, true),
        "nothing but a suspect waits, and its key is busy"
    );
    complete(stage.worker.client(), &job).await.unwrap();
    assert_eq!(sorted(&ask(&stage, 10).await.jobs), [suspect]);
    keyed(&stage, TENANT_A, NOOP, "k").await;
    assert_eq!(ask(&stage, 10).await.jobs, [], "the suspect runs");
}
