//! A redrive in a race: with another redrive, a retry, a cancel, an enqueue of its twin.

use jobforge_testkit::{Param, Running};
use uuid::Uuid;

use super::cast::{REDRIVE_IDS, Told};
use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{claim, complete, enqueue_with};
use crate::schema::{NOOP, TENANT_A};

fn params(ids: &[Uuid]) -> Vec<Param> {
    vec![Box::new(TENANT_A), Box::new(ids.to_vec())]
}

/// A redrive that must wait for somebody.
async fn redrive_waiting(stage: &Stage, ids: &[Uuid]) -> Running {
    stage.an_app().await.spawn_blocked(REDRIVE_IDS, params(ids)).await
}

async fn redrive_open(stage: &Stage, ids: &[Uuid]) -> Vec<Told> {
    let rows = stage.app.query(REDRIVE_IDS, &[&TENANT_A, &ids]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn ended(running: Running) -> Vec<Told> {
    let (_, rows) = running.finish().await;
    rows.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn two_redrives_of_one_job_redrive_it_once() {
    let stage = Stage::set().await;
    let (both, mine) = (stage.dead().await, stage.dead().await);
    stage.app.begin().await;
    redrive_open(&stage, &[both]).await;
    let second = redrive_waiting(&stage, &[both, mine]).await;
    assert_eq!(second.blocked_by().await, [stage.app.pid()]);
    stage.app.commit().await;
    assert_eq!(ended(second).await, [(both, "skipped JF008 job_queued".into()), (mine, "redriven".into())]);
    assert_eq!(claim(stage.worker.client(), "w1", 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_redrive_that_is_rolled_back_leaves_the_job_to_the_next() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    stage.app.begin().await;
    redrive_open(&stage, &[id]).await;
    let second = redrive_waiting(&stage, &[id]).await;
    stage.app.rollback().await;
    assert_eq!(ended(second).await, [(id, "redriven".to_owned())]);
    assert_eq!(stage.count("select count(*) from jobforge.bulk_operations").await, 1);
}

#[tokio::test]
async fn redrives_of_the_same_jobs_in_opposite_order_do_not_deadlock() {
    let stage = Stage::set().await;
    let (a, m, z) = (stage.dead().await, stage.dead().await, stage.dead().await);
    stage.app.begin().await;
    redrive_open(&stage, &[m]).await;
    let first = redrive_waiting(&stage, &[a, m, z]).await;
    let second = redrive_waiting(&stage, &[z, a]).await;
    stage.app.rollback().await;
    let done = |id| (id, "redriven".to_owned());
    assert_eq!(ended(first).await, [done(a), done(m), done(z)]);
    let late = |id| (id, "skipped JF008 job_queued".to_owned());
    assert_eq!(ended(second).await, [late(a), late(z)]);
}

#[tokio::test]
async fn a_redrive_and_a_retry_run_the_job_once() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    let retry = "select status from jobforge.retry_job($1, $2)";
    stage.app.begin().await;
    stage.app.query(retry, &[&TENANT_A, &id]).await.unwrap();
    let redrive = redrive_waiting(&stage, &[id]).await;
    stage.app.commit().await;
    assert_eq!(ended(redrive).await, [(id, "skipped JF008 job_queued".to_owned())]);
    assert_eq!(stage.told(id).await, "queued 1/0/0");

    // The other way round: the retry finds a waiting job and lets it run now.
    let job = stage.claim(1).await.remove(0);
    complete(stage.worker.client(), &job).await.unwrap();
    let id = stage.dead().await;
    stage.app.begin().await;
    redrive_open(&stage, &[id]).await;
    let retry = stage.an_app().await.spawn_blocked(retry, vec![Box::new(TENANT_A), Box::new(id)]).await;
    stage.app.commit().await;
    let (_, rows) = retry.finish().await;
    assert_eq!(rows.unwrap()[0].get::<_, String>(0), "queued");
    assert_eq!(stage.told(id).await, "queued 1/0/0");
}

#[tokio::test]
async fn a_redrive_after_a_cancel_finds_the_job_over() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    stage.app.begin().await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &id]).await.unwrap();
    let redrive = redrive_waiting(&stage, &[id]).await;
    stage.app.commit().await;
    assert_eq!(ended(redrive).await, [(id, "skipped JF008 job_canceled".to_owned())]);
}

#[tokio::test]
async fn a_redrive_that_meets_a_twin_being_enqueued_waits_and_is_skipped() {
    let stage = Stage::set().await;
    let id = stage.dead_with("'{}', p_dedupe_key => 'd'", "permanent", "x").await;
    let neighbour = stage.dead().await;
    stage.other.begin().await;
    enqueue_with(stage.other.client(), TENANT_A, NOOP, "p_dedupe_key => 'd'").await.unwrap();
    let redrive = redrive_waiting(&stage, &[id, neighbour]).await;
    stage.other.commit().await;
    let wanted = [(id, "skipped JF008 dedupe_twin_alive".into()), (neighbour, "redriven".into())];
    assert_eq!(ended(redrive).await, wanted);
    assert_eq!(stage.told(id).await, "failed 1/1/0");
}

#[tokio::test]
async fn an_enqueue_that_meets_a_redriven_twin_answers_with_it() {
    let stage = Stage::set().await;
    let id = stage.dead_with("'{}', p_dedupe_key => 'd'", "permanent", "x").await;
    stage.app.begin().await;
    redrive_open(&stage, &[id]).await;
    let sql = "select id, existing from jobforge.enqueue_job($1, 'test.noop', p_dedupe_key => 'd')";
    let twin = stage.an_app().await.spawn_blocked(sql, vec![Box::new(TENANT_A)]).await;
    stage.app.commit().await;
    let (_, rows) = twin.finish().await;
    let row = &rows.unwrap()[0];
    assert_eq!((row.get::<_, Uuid>(0), row.get::<_, bool>(1)), (id, true));
}

/// A redrive takes dedupe keys in the order of keyed enqueues, whatever the order of the jobs' ids.
#[tokio::test]
async fn a_redrive_and_a_keyed_batch_do_not_deadlock() {
    let stage = Stage::set().await;
    // The ids in the opposite order of the keys.
    let z = stage.dead_with("'{}', p_dedupe_key => 'z'", "permanent", "x").await;
    let a = stage.dead_with("'{}', p_dedupe_key => 'a'", "permanent", "x").await;
    let batch = "select at, existing from jobforge.enqueue_jobs($1, '{test.noop,test.noop,test.noop}',
        array['{}', '{}', '{}']::jsonb[], p_dedupe_keys => '{a,m,z}') order by at";
    stage.app.begin().await;
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_dedupe_key => 'm'").await.unwrap();
    let enqueue = stage.an_app().await.spawn_blocked(batch, vec![Box::new(TENANT_A)]).await;
    let redrive = redrive_waiting(&stage, &[z, a]).await;
    stage.app.rollback().await;
    let (_, rows) = enqueue.finish().await;
    assert!(rows.unwrap().iter().all(|row| !row.get::<_, bool>(1)));
    let twin = "skipped JF008 dedupe_twin_alive".to_owned();
    assert_eq!(ended(redrive).await, [(z, twin.clone()), (a, twin)]);
}

#[tokio::test]
async fn under_repeatable_read_a_redrive_that_came_second_is_a_serialization_error() {
    let stage = Stage::set().await;
    let id = stage.dead().await;
    stage.other.run("begin isolation level repeatable read; select 1").await;
    stage.other.query("select count(*) from jobforge.jobs", &[]).await.unwrap();
    redrive_open(&stage, &[id]).await;
    let refused = stage.other.query(REDRIVE_IDS, &[&TENANT_A, &vec![id]]).await;
    assert_eq!(refusal(refused).split(' ').next(), Some("40001"));
}

/// What is no dead letter is not locked: it starts and reports while the transaction that named it is open.
#[tokio::test]
async fn a_redrive_holds_up_no_job_that_it_skips() {
    let stage = Stage::set().await;
    let running = stage.running().await;
    let waiting = stage.job().await;
    stage.app.begin().await;
    let mut told = redrive_open(&stage, &[running.id, waiting]).await;
    told.sort_by_key(|(id, _)| *id == waiting);
    let skipped = |id: Uuid, reason: &str| (id, format!("skipped JF008 {reason}"));
    assert_eq!(told, [skipped(running.id, "job_running"), skipped(waiting, "job_queued")]);
    stage.rival.run("set lock_timeout = '10s'").await;
    stage.worker.run("set lock_timeout = '10s'").await;
    assert_eq!(complete(stage.worker.client(), &running).await.unwrap(), "done");
    let claimed = claim(stage.rival.client(), "w2", 1).await.unwrap();
    assert_eq!(claimed[0].id, waiting);
    stage.app.commit().await;
}

/// Two people who see the same cause and act: each letter goes back once, and the second is told so.
#[tokio::test]
async fn two_redrives_of_one_group_redrive_each_letter_once() {
    let stage = Stage::set().await;
    let ids = [stage.dead().await, stage.dead().await, stage.dead().await];
    let sql = "select fingerprint from jobforge.group_dead_letters($1)";
    let group: String = stage.app.query(sql, &[&TENANT_A]).await.unwrap()[0].get(0);
    let sql = "select id, concat_ws(' ', verdict, nullif(error_code, ''), nullif(error_reason, ''))
        from jobforge.redrive_jobs($1, p_fingerprint => $2) where id is not null order by id";
    stage.app.begin().await;
    assert_eq!(stage.app.query(sql, &[&TENANT_A, &group]).await.unwrap().len(), 3);
    let params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(group.clone())];
    let second = stage.an_app().await.spawn_blocked(sql, params).await;
    stage.app.commit().await;
    let late = "skipped JF008 job_queued".to_owned();
    assert_eq!(ended(second).await, ids.map(|id| (id, late.clone())));
    assert_eq!(claim(stage.worker.client(), "w1", 10).await.unwrap().len(), 3);
}

const PRUNE: &str = "select dead_letters from jobforge.prune($1)";

/// A letter that is being forgotten is waited for, and is not there any more.
#[tokio::test]
async fn a_redrive_that_meets_the_end_of_retention_is_told_that_the_job_is_unknown() {
    let stage = Stage::set().await;
    stage.definition(NOOP, "p_dead_retention => 'day'").await;
    let (old, young) = (stage.dead().await, stage.dead().await);
    stage
        .meddle(
            "update jobforge.jobs set finished_at = finished_at - interval '2 days' where id = $1",
            &[&old],
        )
        .await;
    stage.operator.begin().await;
    let pruned = stage.operator.query(PRUNE, &[&stage.term]).await.unwrap();
    assert_eq!(pruned[0].get::<_, i32>(0), 1);
    let redrive = redrive_waiting(&stage, &[old, young]).await;
    stage.operator.commit().await;
    assert_eq!(ended(redrive).await, [(old, "skipped JF007 job_unknown".into()), (young, "redriven".into())]);
    let notes = "select count(*) from jobforge.attempts a where not exists (select from jobforge.jobs j where j.id = a.job_id)";
    assert_eq!(stage.count(notes).await, 0);
}

/// The other way round: what is being redriven is no longer past its time.
#[tokio::test]
async fn retention_passes_by_a_letter_that_is_being_redriven() {
    let stage = Stage::set().await;
    stage.definition(NOOP, "p_dead_retention => 'day'").await;
    let old = stage.dead().await;
    stage
        .meddle(
            "update jobforge.jobs set finished_at = finished_at - interval '2 days' where id = $1",
            &[&old],
        )
        .await;
    stage.app.begin().await;
    redrive_open(&stage, &[old]).await;
    stage.operator.run("set lock_timeout = '10s'").await;
    let pruned = async || stage.operator.query(PRUNE, &[&stage.term]).await.unwrap()[0].get::<_, i32>(0);
    assert_eq!(pruned().await, 0);
    stage.app.commit().await;
    assert_eq!(pruned().await, 0);
    assert_eq!(stage.told(old).await, "queued 1/0/0");
}
