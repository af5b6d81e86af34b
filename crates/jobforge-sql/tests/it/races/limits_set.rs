//! Limits that are set, changed and taken away while jobs run: they hold from then on, for what runs already too.

use super::limits::{ask, of};
use super::stage::Stage;
use crate::schema::calls::{ClaimOptions, claim_with, complete};
use crate::schema::{NOOP, TENANT_A, TENANT_B};

#[derive(Clone, Copy)]
enum Whose {
    Tenant,
    Definition,
}

impl Whose {
    async fn set(self, stage: &Stage, set: &str) {
        match self {
            Whose::Tenant => stage.tenant(TENANT_A, set).await,
            Whose::Definition => stage.definition(NOOP, set).await,
        }
    }
}

#[tokio::test]
async fn a_limit_counts_what_runs_and_follows_each_change_at_once() {
    for whose in [Whose::Tenant, Whose::Definition] {
        let stage = Stage::set().await;
        stage.jobs(30).await;
        let mut held = stage.claim(4).await;
        whose.set(&stage, "p_max_in_flight => 6").await;
        held.extend(ask(&stage, 9).await.jobs);
        assert_eq!(held.len(), 6, "the four that ran before the limit count");
        whose.set(&stage, "p_max_in_flight => 8").await;
        held.extend(ask(&stage, 9).await.jobs);
        assert_eq!(held.len(), 8, "raised");
        whose.set(&stage, "p_max_in_flight => 3").await;
        for left in (3..8).rev() {
            assert_eq!(ask(&stage, 9).await.jobs, [], "lowered below what runs");
            complete(stage.worker.client(), &held.remove(0)).await.unwrap();
            assert_eq!(held.len(), left);
        }
        assert_eq!(ask(&stage, 9).await.jobs, []);
        complete(stage.worker.client(), &held.remove(0)).await.unwrap();
        held.extend(ask(&stage, 9).await.jobs);
        assert_eq!(held.len(), 3);
        whose.set(&stage, "p_clear => '{max_in_flight}'").await;
        held.extend(ask(&stage, 9).await.jobs);
        assert_eq!(held.len(), 12, "taken away");
        whose.set(&stage, "p_max_in_flight => 13").await;
        assert_eq!(ask(&stage, 9).await.jobs.len(), 1, "set again: what began without it counts");
    }
}

/// Claims that saw no limit and end after it was set: before, during or after the setter's own transaction.
#[tokio::test]
async fn a_claim_under_way_when_the_limit_is_set_counts_once_it_commits() {
    for whose in [Whose::Tenant, Whose::Definition] {
        for setter_first in [false, true] {
            let stage = Stage::set().await;
            stage.jobs(30).await;
            let fresh = stage.a_worker().await;
            for session in [&stage.rival, &fresh, &stage.worker] {
                session.run("set lock_timeout = '10s'").await;
            }
            stage.operator.begin().await;
            if setter_first {
                whose.set(&stage, "p_max_in_flight => 8").await;
            }
            stage.rival.begin().await;
            fresh.begin().await;
            for (session, worker) in [(&stage.rival, "w2"), (&fresh, "w1")] {
                let o = ClaimOptions::default();
                assert_eq!(claim_with(session.client(), worker, 2, o).await.unwrap().jobs.len(), 2);
            }
            if !setter_first {
                whose.set(&stage, "p_max_in_flight => 8").await;
            }
            stage.operator.commit().await;
            assert_eq!(ask(&stage, 1).await.jobs.len(), 1);
            stage.rival.commit().await;
            assert_eq!(ask(&stage, 1).await.jobs.len(), 1);
            fresh.commit().await;
            assert_eq!(ask(&stage, 9).await.jobs.len(), 2, "two claims of two, and two of one");
            assert_eq!(ask(&stage, 9).await.jobs, []);
        }
    }
}

/// A claim looks for what it does not know of the tenant's; it must not wait for an operator to make up his mind.
#[tokio::test]
async fn an_operator_in_an_open_transaction_holds_no_claim_up() {
    let stage = Stage::set().await;
    stage.jobs(5).await;
    stage.tenant(TENANT_A, "p_max_in_flight => 2").await;
    stage.operator.begin().await;
    stage.tenant(TENANT_A, "p_max_in_flight => 4").await;
    stage.tenant(TENANT_B, "p_weight => 3").await;
    stage.worker.run("set lock_timeout = '2s'").await;
    assert_eq!(of(&ask(&stage, 9).await.jobs, TENANT_A), 2);
    stage.operator.commit().await;
    let held = ask(&stage, 9).await.jobs;
    assert_eq!(of(&held, TENANT_A), 2);

    // Nor while he takes it away: the run that ended is noted still, and both would sweep it out.
    complete(stage.worker.client(), &held[0]).await.unwrap();
    stage.operator.begin().await;
    stage.tenant(TENANT_A, "p_clear => '{max_in_flight}'").await;
    assert_eq!(of(&ask(&stage, 9).await.jobs, TENANT_A), 1);
    stage.operator.commit().await;
}
