//! A killer job convicts only itself; what a dead worker had not started goes back free.

use tokio_postgres::Error;
use uuid::Uuid;

use super::stage::{Stage, ids, refusal, rival_claim};
use crate::schema::WORKER;
use crate::schema::calls::{ClaimOptions, claim_with, complete, complete_many, fail, release_all};

#[tokio::test]
async fn a_lost_lease_counts_a_death_for_its_window_and_gives_the_rest_back_free() {
    let stage = Stage::set().await;
    let jobs = stage.jobs(5).await;
    let held = stage.claim_in(5, 2).await;
    assert_eq!(ids(&held), jobs, "a claim hands out in starting order");
    let before = stage.see(jobs[4]).await;

    stage.pass(31.0).await;
    assert_eq!(stage.reap().await, (1, 3, 2));

    for id in &jobs[..2] {
        assert_eq!(stage.told(*id).await, "queued 1/0/1");
        assert!(!stage.see(*id).await.ready, "a death is followed by a pause");
    }
    for id in &jobs[2..] {
        let seen = stage.see(*id).await;
        assert_eq!((seen.told().as_str(), seen.ready), ("queued 1/0/0", true));
    }
    assert_eq!(stage.see(jobs[4]).await.run_at, before.run_at, "a free job keeps its place");
}

/// Worker `w1` claims onto a lease it has.
async fn claim_onto(stage: &Stage, lease: Uuid, window: Option<i32>) -> Result<Vec<Uuid>, Error> {
    let options = ClaimOptions { lease_id: Some(lease), window, ..ClaimOptions::default() };
    claim_with(stage.worker.client(), "w1", 9, options).await.map(|claimed| ids(&claimed.jobs))
}

#[tokio::test]
async fn a_claim_widens_the_window_of_its_lease_and_none_makes_it_tighter() {
    let stage = Stage::set().await;
    let first = stage.jobs(2).await;
    let lease = stage.claim_in(2, 1).await[0].lease_id;
    for (more, window, has) in
        [(0, Some(2), 2), (1, Some(3), 3), (1, Some(1), 3), (1, None, 3), (2, Some(4), 4)]
    {
        let jobs = if more == 0 { vec![] } else { stage.jobs(more).await };
        assert_eq!(claim_onto(&stage, lease, window).await.unwrap(), jobs);
        let told = stage.count("select sum(window_size)::bigint from jobforge.leases").await;
        assert_eq!(told, has, "after {window:?} for {more}");
    }
    stage.pass(31.0).await;
    assert_eq!(stage.reap().await, (1, 3, 4));
    assert_eq!(stage.told(first[1]).await, "queued 1/0/1", "it may have started since the window is wider");
}

#[tokio::test]
async fn of_two_claims_at_once_the_wider_window_stays() {
    let stage = Stage::set().await;
    let lease = stage.running().await.lease_id;
    stage.worker.begin().await;
    claim_onto(&stage, lease, Some(5)).await.unwrap();
    let second = stage.db.session_at(&stage.db.url_as(WORKER, None)).await;
    let sql = "select id from jobforge.claim_jobs('w1', '{default}', '{test.noop}', 1, $1, p_window => 3)";
    let second = second.spawn_blocked(sql, vec![Box::new(lease)]).await;
    stage.worker.commit().await;
    second.finish().await.1.unwrap();
    assert_eq!(stage.count("select window_size::bigint from jobforge.leases").await, 5);
}

#[tokio::test]
async fn a_lease_is_not_widened_beyond_measure_nor_that_of_a_suspect() {
    let stage = Stage::set().await;
    let lease = stage.running().await.lease_id;
    for absurd in [100_001, 0, i32::MIN] {
        let refused = claim_onto(&stage, lease, Some(absurd)).await;
        assert_eq!(refusal(refused), "JF001 window_out_of_range", "{absurd}");
    }
    stage.job().await;
    stage.meddle("update jobforge.jobs set deaths = 2, fence = 2 where lease_id is null", &[]).await;
    let held = stage.claim(1).await;
    assert!(held[0].solo);
    let wider = claim_onto(&stage, held[0].lease_id, Some(2)).await;
    assert_eq!(refusal(wider), "JF001 window_out_of_range");
}

#[tokio::test]
async fn what_was_reported_moves_the_window_on() {
    let stage = Stage::set().await;
    let jobs = stage.jobs(5).await;
    let held = stage.claim_in(5, 2).await;
    complete_many(stage.worker.client(), &held[..2]).await.unwrap();
    fail(stage.worker.client(), &held[2], "retryable").await.unwrap();

    stage.pass(31.0).await;
    assert_eq!(stage.reap().await, (1, 0, 2));
    assert_eq!(stage.told(jobs[2]).await, "queued 1/1/0");
    assert_eq!(stage.told(jobs[3]).await, "queued 1/0/1");
    assert_eq!(stage.told(jobs[4]).await, "queued 1/0/1");
}

#[tokio::test]
async fn a_beat_keeps_the_starting_order_for_the_reaper() {
    let stage = Stage::set().await;
    let jobs = stage.jobs(4).await;
    let held = stage.claim_in(4, 1).await;
    complete(stage.worker.client(), &held[0]).await.unwrap();
    let left = &held[1..];
    let sql = "select from jobforge.heartbeat($1, $2, $3, $4, $5)";
    let (tenants, fences): (Vec<_>, Vec<_>) = left.iter().map(|job| (job.tenant_id, job.fence)).unzip();
    stage
        .worker
        .query(sql, &[&held[0].lease_id, &tenants, &ids(left), &fences, &held[0].claim_no])
        .await
        .unwrap();
    assert_eq!(stage.count("select count(*) from jobforge.lease_claims").await, 1);

    stage.pass(31.0).await;
    assert_eq!(stage.reap().await, (1, 2, 1));
    assert_eq!(stage.told(jobs[1]).await, "queued 1/0/1");
    assert_eq!(stage.told(jobs[3]).await, "queued 1/0/0");
}

#[tokio::test]
async fn a_suspect_runs_alone_on_its_own_lease_and_one_per_worker() {
    let stage = Stage::set().await;
    let suspects = stage.jobs(2).await;
    stage.meddle("update jobforge.jobs set deaths = 2, fence = 2", &[]).await;
    stage.pass(1.0).await;
    let innocents = stage.jobs(3).await;

    let first = stage.claim(10).await;
    let solo: Vec<_> = first.iter().filter(|job| job.solo).collect();
    assert_eq!(solo.len(), 1, "one suspect at a time in a process");
    assert!(suspects.contains(&solo[0].id));
    let ordinary: Vec<_> = first.iter().filter(|job| !job.solo).cloned().collect();
    assert_eq!(ids(&ordinary), innocents, "no suspect comes in the ordinary walk");
    assert!(ordinary.iter().all(|job| job.lease_id != solo[0].lease_id), "a suspect has a lease of its own");

    assert_eq!(stage.claim(10).await, [], "the same worker gets no second suspect");
    let rival = rival_claim(&stage.rival, 10).await;
    assert_eq!(rival.len(), 1);
    assert!(rival[0].solo && rival[0].id != solo[0].id, "another worker does");
}

#[tokio::test]
async fn a_killer_ends_dead_and_its_neighbours_never_do() {
    let stage = Stage::set().await;
    let killer = stage.job().await;
    stage.pass(1.0).await;
    let innocents = stage.jobs(6).await;
    for _ in 0..30 {
        // Two slots: the worker runs what it holds in order, and dies with the killer's start.
        let held = stage.claim_in(4, 2).await;
        let killer_at = held.iter().position(|job| job.id == killer);
        let before = if killer_at.is_some_and(|at| held[at].solo) { Some(0) } else { killer_at };
        let done = before.map_or(held.len(), |at| at.saturating_sub(1));
        for job in &held[..done] {
            complete(stage.worker.client(), job).await.unwrap();
            if job.solo {
                release_all(stage.worker.client(), job.lease_id).await.unwrap();
            }
        }
        if killer_at.is_some() {
            stage.pass(35.0).await;
            stage.reap().await;
        }
        stage.pass(3.0).await;
    }
    assert_eq!(stage.told(killer).await, "dead 5/0/5");
    for id in innocents {
        let seen = stage.see(id).await;
        assert_eq!(seen.status, "succeeded");
        assert!(seen.deaths <= 2, "an innocent died {} times", seen.deaths);
    }
}
