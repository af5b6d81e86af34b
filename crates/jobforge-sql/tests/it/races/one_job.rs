//! One job alone, claimed onto a lease that is there: the short way keeps every rule of the long one.

use uuid::Uuid;

use super::stage::{Stage, ids};
use crate::schema::calls::{Claim, ClaimOptions, Held, claim_with, complete, enqueue_with, release_all};
use crate::schema::{NOOP, TENANT_A};

const NOBODY: [Uuid; 0] = [];

/// A stage whose worker has a lease, by the job that runs on it.
async fn with_a_lease() -> (Stage, Held) {
    let stage = Stage::set().await;
    stage.job().await;
    let running = stage.claim(1).await.remove(0);
    (stage, running)
}

async fn ask(stage: &Stage, running: &Held) -> Claim {
    let options = ClaimOptions { lease_id: Some(running.lease_id), ..ClaimOptions::default() };
    claim_with(stage.worker.client(), "w1", 5, options).await.unwrap()
}

#[tokio::test]
async fn it_is_taken_once_noted_and_goes_back_with_its_lease() {
    let (stage, running) = with_a_lease().await;
    let none = ask(&stage, &running).await;
    assert_eq!((none.jobs.len(), none.more, none.limited, none.turn), (0, false, false, None));
    let id = stage.job().await;
    stage.rival.begin().await;
    let options = ClaimOptions::default();
    assert_eq!(claim_with(stage.rival.client(), "w2", 5, options).await.unwrap().jobs.len(), 1);
    stage.worker.run("set lock_timeout = '10s'").await;
    let locked = ask(&stage, &running).await;
    assert_eq!((locked.jobs.len(), locked.more), (0, true), "locked is not empty, and is not waited for");
    stage.rival.rollback().await;

    let claim = ask(&stage, &running).await;
    let job = &claim.jobs[0];
    assert_eq!((job.id, job.lease_id, job.fence, job.solo), (id, running.lease_id, 1, false));
    assert_eq!((claim.lease_id, claim.turn, claim.more), (running.lease_id, Some(TENANT_A), false));
    assert!(job.claim_no > running.claim_no, "the later claim has the later number");
    assert_eq!(stage.told(id).await, "running 1/0/0");
    release_all(stage.worker.client(), running.lease_id).await.unwrap();
    assert!(stage.see(id).await.ready, "what is not noted would stay behind");
}

#[tokio::test]
async fn what_holds_it_back_holds_it_back_here_too() {
    for hindrance in [
        "select jobforge.pause('queue', 'default')",
        "select jobforge.pause('definition', 'test.noop')",
        "select jobforge.pause('tenant', $tenant)",
        "tenant p_max_in_flight => 1",
        "tenant p_rate_per_second => 0.001, p_rate_burst => 1",
        "definition p_max_in_flight => 1",
        "definition p_rate_per_second => 0.001, p_rate_burst => 1",
    ] {
        let stage = Stage::set().await;
        match hindrance.split_once(' ').unwrap() {
            ("tenant", set) => stage.tenant(TENANT_A, set).await,
            ("definition", set) => stage.definition(NOOP, set).await,
            _ => {}
        }
        stage.job().await;
        let running = stage.claim(1).await.remove(0);
        if hindrance.starts_with("select") {
            stage.operate(&hindrance.replace("$tenant", &format!("'{TENANT_A}'"))).await;
        }
        let id = stage.job().await;
        assert_eq!(ids(&ask(&stage, &running).await.jobs), NOBODY, "{hindrance}");
        assert_eq!(stage.told(id).await, "queued 0/0/0", "{hindrance}");
    }
}

#[tokio::test]
async fn what_is_due_stands_apart_or_has_a_key_comes_with_it() {
    for (beside, first) in [
        ("p_run_at => jobforge.clock() + interval '1 second'", false),
        ("p_concurrency_key => 'k'", false),
        ("p_priority => 5", true),
    ] {
        let (stage, running) = with_a_lease().await;
        let enqueue = async || enqueue_with(stage.operator.client(), TENANT_A, NOOP, beside).await.unwrap().0;
        let alone = enqueue().await;
        stage.pass(2.0).await;
        let taken = ask(&stage, &running).await.jobs;
        assert_eq!(ids(&taken), [alone], "{beside}, alone");
        complete(stage.worker.client(), &taken[0]).await.unwrap();
        let (other, id) = (enqueue().await, stage.job().await);
        stage.pass(2.0).await;
        let taken = ids(&ask(&stage, &running).await.jobs);
        assert_eq!(taken.len(), 2, "{beside}: {taken:?}");
        assert!(taken.contains(&other) && taken.contains(&id), "{beside}");
        assert!(!first || taken[0] == other, "reserved work starts first");
    }
}
