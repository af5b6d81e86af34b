//! Jobs that go back while others change them, claim beside them, or give back, too.

use jobforge_testkit::{Running, Session};
use uuid::Uuid;

use super::stage::{Stage, ids, refusal};
use crate::schema::calls::{ClaimOptions, claim_with, complete, enqueue_with};
use crate::schema::{NOOP, OPERATOR, TENANT_A};

/// A lease whose buffer holds a job of this queue behind the one that may have started.
async fn lease(stage: &Stage, queue: &'static str) {
    let extra = format!("p_queue => '{queue}'");
    for _ in 0..2 {
        enqueue_with(stage.app.client(), TENANT_A, NOOP, &extra).await.unwrap();
    }
    let o = ClaimOptions { queues: vec![queue], window: Some(1), ..ClaimOptions::default() };
    assert_eq!(claim_with(stage.worker.client(), "w1", 2, o).await.unwrap().jobs.len(), 2);
    stage.pass(1.0).await;
}

/// A queue's position, as a claim leaves it.
async fn position(stage: &Stage, queue: &str) {
    let sql = "insert into jobforge.sweeps (queue, lanes, swept_at, full_at, low, mark_at, mark_xid)
        values ($1, 'lanes', jobforge.clock(), jobforge.clock(), jobforge.clock(), jobforge.clock(), '0')";
    stage.meddle(sql, &[&queue]).await;
}

/// Holds a queue's position as a claim does that has swept and is not over.
async fn sweeping(stage: &Stage, queue: &str) -> Session {
    let session = stage.db.session().await;
    session.begin().await;
    session.query("select from jobforge.sweeps where queue = $1 for no key update", &[&queue]).await.unwrap();
    session
}

/// A reaper of so many leases, which must wait.
async fn reaping(stage: &Stage, limit: i32) -> Running {
    let session = stage.db.session_at(&stage.db.url_as(OPERATOR, None)).await;
    let sql = "select leases, free from jobforge.reap($1, $2)";
    session.spawn_blocked(sql, vec![Box::new(stage.term), Box::new(limit)]).await
}

async fn taken_back(reaper: Running) -> (i32, i32) {
    let (_, answer) = reaper.finish().await;
    let row = &answer.unwrap()[0];
    (row.get(0), row.get(1))
}

/// Leases end in no order of their queues: the first reaper comes to z before a, the second to a before z.
#[tokio::test]
async fn two_reapers_over_several_queues_wait_and_do_not_deadlock() {
    let stage = Stage::set().await;
    for queue in ["z", "m", "a", "a", "z"] {
        lease(&stage, queue).await;
    }
    for queue in ["z", "m", "a"] {
        position(&stage, queue).await;
    }
    stage.pass(31.0).await;
    let sweep = sweeping(&stage, "m").await;
    let first = reaping(&stage, 3).await;
    let second = reaping(&stage, 2).await;
    sweep.commit().await;
    assert_eq!((taken_back(first).await, taken_back(second).await), ((3, 3), (2, 2)));
    let behind = "select count(*) from jobforge.sweeps where swept_at = '-infinity'";
    assert_eq!(stage.count(behind).await, 3, "the next claim of each looks behind its position");
}

/// No reaper looks for them: it goes by leases.
#[tokio::test]
async fn jobs_whose_lease_is_gone_go_back_free_and_who_had_them_is_refused() {
    let stage = Stage::set().await;
    stage.jobs(3).await;
    let slow = stage.claim(2).await;
    let o = ClaimOptions { quick: true, ..ClaimOptions::default() };
    let quick = claim_with(stage.rival.client(), "w2", 1, o).await.unwrap().jobs;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &slow[1].id]).await.unwrap();
    let prune = async || {
        stage.operator.query("select * from jobforge.prune($1)", &[&stage.term]).await.unwrap();
    };
    prune().await;
    assert_eq!(stage.told(slow[0].id).await, "running 1/0/0", "its lease lives");
    stage.meddle("delete from jobforge.lease_claims", &[]).await;
    stage.meddle("delete from jobforge.leases", &[]).await;
    stage.pass(600.0).await;
    assert_eq!(stage.reap().await, (0, 0, 0));
    prune().await;
    assert_eq!(stage.told(slow[1].id).await, "canceled 1/0/0");
    let again = stage.claim(5).await;
    assert_eq!(ids(&again), [slow[0].id, quick[0].id]);
    for old in [&slow[0], &quick[0]] {
        assert_eq!(refusal(complete(stage.worker.client(), old).await), "JF006 fence_stale");
        assert_eq!(stage.told(old.id).await, "running 2/0/0");
    }
    for job in &again {
        assert_eq!(complete(stage.worker.client(), job).await.unwrap(), "done");
    }
}

/// Gives back all that is on a lease, and must wait.
async fn giving_back(stage: &Stage, lease: Uuid) -> Running {
    // As long as the story's steps take.
    let patient = "alter function jobforge.release_jobs(uuid, uuid[], uuid[], integer[]) reset lock_timeout";
    stage.admin.batch_execute(patient).await.unwrap();
    let session = stage.a_worker().await;
    session.spawn_blocked("select at from jobforge.release_jobs($1)", vec![Box::new(lease)]).await
}

/// Whoever canceled it was told that it will end.
#[tokio::test]
async fn a_cancel_that_is_committed_while_its_lease_is_given_back_ends_the_job() {
    let stage = Stage::set().await;
    stage.jobs(3).await;
    let held = stage.claim(3).await;
    stage.app.begin().await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &held[1].id]).await.unwrap();
    let release = giving_back(&stage, held[0].lease_id).await;
    stage.app.commit().await;
    release.finish().await.1.unwrap();
    assert_eq!(stage.told(held[1].id).await, "canceled 1/0/0");
    assert_eq!(ids(&stage.claim(5).await), [held[0].id, held[2].id]);
}

/// The worker knows nothing of them yet, and no reaper would find them on a lease that is gone.
#[tokio::test]
async fn what_is_being_claimed_onto_a_lease_that_is_given_back_goes_back_too() {
    let stage = Stage::set().await;
    let first = stage.running().await;
    let late = stage.jobs(2).await;
    stage.worker.begin().await;
    let o = ClaimOptions { lease_id: Some(first.lease_id), ..ClaimOptions::default() };
    let claimed = claim_with(stage.worker.client(), "w1", 5, o).await.unwrap().jobs;
    assert_eq!(ids(&claimed), late);
    let release = giving_back(&stage, first.lease_id).await;
    stage.worker.commit().await;
    release.finish().await.1.unwrap();
    for id in [first.id, late[0], late[1]] {
        assert_eq!(stage.told(id).await, "queued 1/0/0");
    }
    assert_eq!(stage.count("select count(*) from jobforge.jobs where lease_id is not null").await, 0);
}

#[tokio::test]
async fn a_job_without_a_lease_that_somebody_holds_keeps_no_other_from_going_back() {
    let stage = Stage::set().await;
    stage.jobs(3).await;
    let held = stage.claim(3).await;
    stage.meddle("delete from jobforge.lease_claims", &[]).await;
    stage.meddle("delete from jobforge.leases", &[]).await;
    stage.operate("set lock_timeout = '10s'").await;
    let prune = async || -> Option<i32> {
        let sql = "select (after ->> 'stranded')::integer from jobforge.prune($1)";
        stage.operator.query(sql, &[&stage.term]).await.unwrap()[0].get(0)
    };
    stage.app.begin().await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &held[1].id]).await.unwrap();
    assert_eq!(prune().await, Some(2));
    assert_eq!(stage.told(held[1].id).await, "running 1/0/0");
    assert_eq!(ids(&stage.claim(5).await), [held[0].id, held[2].id]);
    stage.app.commit().await;
    assert_eq!(prune().await, Some(1));
    assert_eq!(stage.told(held[1].id).await, "canceled 1/0/0");
    assert_eq!(prune().await, None);
}
