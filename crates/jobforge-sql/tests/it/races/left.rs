//! Jobs that somebody holds locked while their worker is lost: the reaper takes back what it can, and these later.

use jobforge_testkit::Session;
use uuid::Uuid;

use super::stage::{Stage, ids, reap, refusal};
use crate::schema::TENANT_A;
use crate::schema::calls::{Held, complete, fail};

/// A stage on which no reaper waits for ever.
async fn set() -> Stage {
    let stage = Stage::set().await;
    stage.operate("set lock_timeout = '10s'").await;
    stage
}

/// Four jobs on a lease of which two may have started.
async fn lease(stage: &Stage) -> Vec<Held> {
    stage.jobs(4).await;
    let held = stage.claim_in(4, 2).await;
    assert_eq!(held.len(), 4);
    held
}

/// Cancels a job, and does not commit.
async fn hold(app: &Session, job: &Held) {
    app.begin().await;
    app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();
}

async fn let_go(app: &Session, cancels: bool) {
    if cancels { app.commit().await } else { app.rollback().await }
}

/// What the lease's claims name.
async fn named(stage: &Stage, lease: Uuid) -> Vec<Uuid> {
    let sql =
        "select u.id from jobforge.lease_claims c cross join unnest(c.job_ids) as u(id) where c.lease_id = $1
               order by c.claim_no";
    stage.admin.query(sql, &[&lease]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn beat(stage: &Stage, lease: Uuid) -> String {
    refusal(stage.worker.query("select from jobforge.heartbeat($1)", &[&lease]).await)
}

/// In how many seconds the reaper is told to come again.
async fn again_in(stage: &Stage) -> f64 {
    let sql =
        "select extract(epoch from r.next_expiry - jobforge.clock())::float8 from jobforge.reap($1) as r";
    stage.operator.query(sql, &[&stage.term]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn a_job_that_somebody_holds_keeps_no_other_from_being_taken_back() {
    // Which is held; whether it is canceled; what is free and dies at first, and what once it is let go; and its end.
    for (at, cancels, first, then, end) in [
        (0, true, (4, 3), (0, 1), "canceled 1/0/0"),
        (1, false, (4, 3), (0, 1), "queued 1/0/1"),
        (2, false, (3, 4), (1, 0), "queued 1/0/0"),
        (3, true, (3, 4), (0, 0), "canceled 1/0/0"),
    ] {
        let stage = set().await;
        let (lost, other) = (lease(&stage).await, lease(&stage).await);
        let kept = &lost[at];
        stage.pass(31.0).await;
        hold(&stage.app, kept).await;
        assert_eq!(stage.reap().await, (1, first.0, first.1), "with {at} held");
        for (n, job) in lost.iter().chain(&other).enumerate() {
            let died = i32::from(n % 4 < 2);
            let told = if job == kept { "running 1/0/0".to_owned() } else { format!("queued 1/0/{died}") };
            assert_eq!(stage.told(job.id).await, told, "{n} with {at} held");
        }
        assert_eq!(named(&stage, kept.lease_id).await, [kept.id]);
        assert_eq!(stage.reap().await, (0, 0, 0), "nothing of it is counted twice");
        let_go(&stage.app, cancels).await;
        assert_eq!(stage.reap().await, (1, then.0, then.1), "with {at} let go");
        assert_eq!(stage.told(kept.id).await, end);
        assert_eq!(stage.reap().await, (0, 0, 0));
        let left =
            "select (select count(*) from jobforge.leases) + (select count(*) from jobforge.lease_claims)";
        assert_eq!(stage.count(left).await, 0);
    }
}

#[tokio::test]
async fn of_several_that_are_held_each_goes_back_as_what_it_was() {
    let stage = set().await;
    let lost = lease(&stage).await;
    stage.pass(31.0).await;
    hold(&stage.app, &lost[1]).await;
    hold(&stage.other, &lost[2]).await;
    let third = stage.an_app().await;
    hold(&third, &lost[3]).await;
    assert_eq!(stage.reap().await, (0, 0, 1));
    assert_eq!(named(&stage, lost[0].lease_id).await, ids(&lost[1..]));
    let_go(&stage.other, false).await;
    assert_eq!(stage.reap().await, (0, 1, 0));
    assert_eq!(named(&stage, lost[0].lease_id).await, [lost[1].id, lost[3].id]);
    let_go(&stage.app, false).await;
    assert_eq!(stage.reap().await, (0, 0, 1), "it may have started, whatever went before it");
    let_go(&third, false).await;
    assert_eq!(stage.reap().await, (1, 1, 0), "and this one had not, though it is the only one left");
    for (at, told) in ["queued 1/0/1", "queued 1/0/1", "queued 1/0/0", "queued 1/0/0"].iter().enumerate() {
        assert_eq!(stage.told(lost[at].id).await, *told, "{at}");
    }
}

/// Whatever comes late read its clock before the lease ran out.
#[tokio::test]
async fn nothing_that_comes_late_and_no_outage_brings_back_a_lease_that_was_left() {
    let mut stage = set().await;
    let lost = lease(&stage).await;
    stage.pass(31.0).await;
    hold(&stage.app, &lost[0]).await;
    assert_eq!(stage.reap().await, (0, 2, 1));
    stage.lose(-20.0).await;
    assert_eq!(beat(&stage, lost[0].lease_id).await, "JF006 lease_lost");
    let claim = "select from jobforge.claim_jobs('w1', '{default}', '{test.noop}', 1, $1)";
    assert_eq!(refusal(stage.worker.query(claim, &[&lost[0].lease_id]).await), "JF006 lease_lost");
    assert_eq!(refusal(complete(stage.worker.client(), &lost[0]).await), "JF006 fence_stale");
    assert_eq!(refusal(fail(stage.worker.client(), &lost[0], "retryable").await), "JF006 fence_stale");
    // A refusal is told before its transaction has let the lease go.
    stage.worker.run("select").await;
    stage.lose(60.0).await;
    stage.term = stage.lead("leader").await.unwrap();
    let_go(&stage.app, false).await;
    assert_eq!(stage.reap().await, (1, 0, 1));
}

#[tokio::test]
async fn leases_that_were_left_come_after_the_others_and_in_turn() {
    let stage = set().await;
    let (first, second) = (lease(&stage).await, lease(&stage).await);
    stage.pass(31.0).await;
    hold(&stage.app, &first[0]).await;
    hold(&stage.other, &second[0]).await;
    assert_eq!(stage.reap().await, (0, 4, 2));
    stage.pass(1.0).await;
    lease(&stage).await;
    stage.pass(31.0).await;
    let one = async || reap(&stage.operator, stage.term, 1).await.unwrap();
    assert_eq!(one().await, (1, 2, 2), "one of which nobody holds anything");
    assert_eq!(one().await, (0, 0, 0));
    stage.pass(1.0).await;
    assert_eq!(one().await, (0, 0, 0));
    stage.pass(1.0).await;
    let_go(&stage.other, false).await;
    let_go(&stage.app, false).await;
    assert_eq!(one().await, (1, 0, 1));
    assert_eq!(one().await, (1, 0, 1));
}

/// Its worker was lost when it was lost, whatever keeps the reaper from its end.
#[tokio::test]
async fn what_was_left_is_looked_for_once_a_second_and_told_as_what_it_is() {
    let stage = set().await;
    let lost = lease(&stage).await;
    let sql = "select extract(epoch from expires_at)::float8 from jobforge.leases";
    let ran_out: f64 = stage.admin.query_one(sql, &[]).await.unwrap().get(0);
    stage.pass(91.0).await;
    let other = lease(&stage).await;
    hold(&stage.app, &lost[0]).await;
    assert!((again_in(&stage).await - 1.0).abs() < 0.001);
    let stuck = "select extract(epoch from expires_at)::float8, jobs from jobforge.list_stuck_leases()";
    let stuck = stage.operator.query(stuck, &[]).await.unwrap();
    assert_eq!((stuck.len(), stuck[0].get::<_, f64>(0), stuck[0].get::<_, i32>(1)), (1, ran_out, 1));
    let state = "select extract(epoch from (l ->> 'expires_at')::timestamptz)::float8
                 from jobforge.system_state() as s cross join jsonb_array_elements(s.leases) as l";
    let state = stage.operator.query(state, &[]).await.unwrap();
    assert_eq!(state[0].get::<_, f64>(0), ran_out, "the longest silent first");
    let explain = "select reason, extract(epoch from (detail ->> 'lease_expires_at')::timestamptz)::float8
                   from jobforge.explain_job($1, $2)";
    let told = stage.other.query(explain, &[&TENANT_A, &lost[0].id]).await.unwrap();
    assert_eq!((told[0].get::<_, String>(0), told[0].get::<_, f64>(1)), ("lost".to_owned(), ran_out));
    let_go(&stage.app, false).await;
    assert!((again_in(&stage).await - 30.0).abs() < 0.001, "when the other runs out");
    assert_eq!(stage.told(other[0].id).await, "running 1/0/0");
}
