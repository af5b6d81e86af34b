//! Claims side by side: nobody gets what another has, and what is only locked is said to be there.

use std::collections::HashSet;

use jobforge_testkit::{Param, Running};
use serde_json::Value;
use tokio_postgres::types::Json;

use super::stage::{Stage, ids, mark_behind, rival_claim};
use crate::schema::calls::{ClaimOptions, act_for, claim_with, enqueue_with};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B};

#[tokio::test]
async fn two_open_claims_never_hand_out_a_job_twice() {
    let stage = Stage::set().await;
    stage.jobs(10).await;
    stage.worker.begin().await;
    stage.rival.begin().await;
    stage.rival.run("set local lock_timeout = '10s'").await;
    let mut all = Vec::new();
    for _ in 0..2 {
        all.extend(ids(&stage.claim(3).await));
        all.extend(ids(&rival_claim(&stage.rival, 2).await));
    }
    stage.worker.commit().await;
    stage.rival.commit().await;
    assert_eq!(all.len(), 10);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 10);
}

#[tokio::test]
async fn a_claim_passes_by_locked_work_to_the_work_behind_it() {
    let stage = Stage::set().await;
    let first = stage.jobs(4).await;
    enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    stage.worker.begin().await;
    assert_eq!(stage.claim(2).await.len(), 2);
    let rest = rival_claim(&stage.rival, 5).await;
    assert_eq!(rest.len(), 3, "work-conserving: all that is not locked");
    stage.worker.rollback().await;
    let back = rival_claim(&stage.rival, 5).await;
    assert_eq!(back.len(), 2);
    assert!(first.contains(&back[0].id) || back[0].tenant_id == TENANT_B);
}

#[tokio::test]
async fn an_empty_answer_says_whether_there_is_work_that_others_hold() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    stage.worker.begin().await;
    assert_eq!(stage.claim(2).await.len(), 2);
    let look = async || {
        let claim = claim_with(stage.rival.client(), "w2", 5, ClaimOptions::default()).await.unwrap();
        (claim.jobs.len(), claim.more)
    };
    assert_eq!(look().await, (0, true), "locked is not empty");
    stage.worker.commit().await;
    assert_eq!(look().await, (0, false), "empty is");
}

#[tokio::test]
async fn a_claim_waits_for_no_cancel_and_takes_nothing_that_was_canceled() {
    let stage = Stage::set().await;
    let jobs = stage.jobs(2).await;
    stage.app.begin().await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &jobs[0]]).await.unwrap();
    stage.worker.run("set lock_timeout = '10s'").await;
    assert_eq!(ids(&stage.claim(5).await), [jobs[1]]);
    stage.app.commit().await;
    assert_eq!(stage.claim(5).await, []);
    assert_eq!(stage.told(jobs[0]).await, "canceled 0/0/0");
}

#[tokio::test]
async fn a_cancel_that_waits_for_a_claim_asks_the_running_job_to_stop() {
    let stage = Stage::set().await;
    let id = stage.job().await;
    stage.worker.begin().await;
    let job = stage.claim(1).await.remove(0);
    let sql = "select status, cancel_requested from jobforge.cancel_job($1, $2)";
    let cancel = stage.an_app().await.spawn_blocked(sql, vec![Box::new(TENANT_A), Box::new(id)]).await;
    stage.worker.commit().await;
    let (_, rows) = cancel.finish().await;
    let rows = rows.unwrap();
    assert_eq!((rows[0].get::<_, String>(0).as_str(), rows[0].get::<_, bool>(1)), ("running", true));
    let problems =
        crate::schema::calls::beat(stage.worker.client(), job.lease_id, std::slice::from_ref(&job)).await;
    assert_eq!(problems.unwrap(), [(id, "canceled".to_owned())]);
}

#[tokio::test]
async fn a_tenants_jobs_start_by_priority_time_and_id_over_all_types_and_queues() {
    let stage = Stage::set().await;
    let mut n = 0_u32;
    for priority in [300, 20, 100, 20, 10, 300, 1000, 100] {
        for (kind, queue) in [(NOOP, "default"), (OTHER, "second"), (NOOP, "second"), (OTHER, "default")] {
            // Some are put off into the past of others: order is by run_at, not by arrival.
            n = (n * 7 + 3) % 11;
            let extra = format!(
                "p_priority => {priority}, p_queue => '{queue}', p_run_at => jobforge.clock() + {n} * interval '1 s'"
            );
            enqueue_with(stage.app.client(), TENANT_A, kind, &extra).await.unwrap();
        }
    }
    stage.pass(20.0).await;
    let sql = "select id from jobforge.jobs order by priority, run_at, id";
    let rows = stage.admin.query(sql, &[]).await.unwrap();
    let wanted: Vec<uuid::Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let mut got = Vec::new();
    for limit in [1, 2, 7, 3, 10, 9, 9] {
        let o = ClaimOptions { queues: vec!["second", "default"], ..ClaimOptions::default() };
        got.extend(ids(&claim_with(stage.worker.client(), "w1", limit, o).await.unwrap().jobs));
    }
    assert_eq!(got, wanted);
}

#[tokio::test]
async fn a_claim_takes_only_its_queues_and_types() {
    let stage = Stage::set().await;
    for (kind, queue) in [(NOOP, "default"), (OTHER, "default"), (NOOP, "second")] {
        enqueue_with(stage.app.client(), TENANT_A, kind, &format!("p_queue => '{queue}'")).await.unwrap();
    }
    let o = ClaimOptions { types: vec![NOOP], ..ClaimOptions::default() };
    let got = claim_with(stage.worker.client(), "w1", 9, o).await.unwrap();
    assert_eq!(got.jobs.len(), 1);
    assert_eq!(got.jobs[0].kind, NOOP);
}

const SWEEPING: &str = "select id from jobforge.claim_jobs('w1', $1, '{test.noop}', 9, p_cursor => $2)";

/// A claim from remembered positions that must wait: its queues have none noted yet.
async fn sweeping(stage: &Stage, queues: &[&str], cursor: &Value) -> Running {
    let queues: Vec<String> = queues.iter().map(|queue| (*queue).to_owned()).collect();
    let params: Vec<Param> = vec![Box::new(queues), Box::new(Json(cursor.clone()))];
    stage.a_worker().await.spawn_blocked(SWEEPING, params).await
}

#[tokio::test]
async fn the_first_sweeps_of_the_same_queues_in_another_order_do_not_deadlock() {
    let stage = Stage::set().await;
    let cursor = mark_behind(&stage, &stage.running().await).await;
    stage.worker.begin().await;
    stage.worker.query(SWEEPING, &[&vec!["m"], &Json(&cursor)]).await.unwrap();
    let first = sweeping(&stage, &["a", "m", "z"], &cursor).await;
    let second = sweeping(&stage, &["z", "a"], &cursor).await;
    stage.worker.commit().await;
    for claim in [first, second] {
        assert_eq!(claim.finish().await.1.unwrap().len(), 1, "nothing but the last row, and no error");
    }
}
