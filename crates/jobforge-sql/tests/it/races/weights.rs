//! Weights: a tenant's share of the starts, by its weight, whatever a claim asks for.

use std::collections::HashMap;

use serde_json::json;
use uuid::Uuid;

use super::stage::Stage;
use crate::schema::NOOP;
use crate::schema::calls::{ClaimOptions, claim_with};

/// Claims as one worker does, each from where the last one stopped.
struct Claimer<'a> {
    stage: &'a Stage,
    turn: Option<Uuid>,
    owed: Option<i32>,
    shares: HashMap<Uuid, f64>,
}

impl<'a> Claimer<'a> {
    fn on(stage: &'a Stage) -> Claimer<'a> {
        Claimer { stage, turn: None, owed: None, shares: HashMap::new() }
    }

    async fn claim(&mut self, limit: i32, queues: &[&'static str]) -> usize {
        let cursor = Some(json!({ "turn": self.turn, "owed": self.owed, "marks": [] }));
        let o = ClaimOptions { cursor, queues: queues.to_vec(), ..ClaimOptions::default() };
        let claim = claim_with(self.stage.worker.client(), "w1", limit, o).await.unwrap();
        (self.turn, self.owed) = (claim.turn.or(self.turn), claim.owed);
        for job in &claim.jobs {
            *self.shares.entry(job.tenant_id).or_default() += 1.0;
        }
        claim.jobs.len()
    }

    fn share(&self, tenant: Uuid) -> f64 {
        self.shares.get(&tenant).copied().unwrap_or(0.0) / self.shares.values().sum::<f64>()
    }
}

fn tenant(n: i32) -> Uuid {
    Uuid::parse_str(&format!("10000000-0000-0000-0000-{n:012}")).unwrap()
}

/// Tenants 1 to `weights.len()`, each with jobs in these queues.
async fn crowd(stage: &Stage, weights: &[i32], jobs: i32, queues: &[&str]) {
    for (n, weight) in (1..).zip(weights) {
        let id = tenant(n);
        stage.tenant(id, &format!("p_name => '{n}', p_weight => {weight}")).await;
        for queue in queues {
            stage
                .app
                .run(&format!(
                    "select set_config('app.tenant_id', '{id}', false);
                     select count(*) from jobforge.enqueue_jobs('{id}', array_fill('{NOOP}'::text, array[{jobs}]),
                       array_fill('{{}}'::jsonb, array[{jobs}]), array_fill('{queue}'::text, array[{jobs}]))"
                ))
                .await;
        }
    }
}

#[tokio::test]
async fn shares_follow_weights_for_every_size_of_claim() {
    for limit in [1, 3, 5, 16, 100] {
        let stage = Stage::set().await;
        crowd(&stage, &[1, 2, 4], 800, &["default"]).await;
        let mut claimer = Claimer::on(&stage);
        for _ in 0..(700 / limit) {
            assert_eq!(claimer.claim(limit, &["default"]).await, usize::try_from(limit).unwrap());
        }
        for (n, weight) in [(1, 1.0), (2, 2.0), (3, 4.0)] {
            let share = claimer.share(tenant(n)) * 7.0 / weight;
            assert!((0.9..=1.1).contains(&share), "claims of {limit}: tenant {n} has {share} of its share");
        }
    }
}

#[tokio::test]
async fn what_one_leaves_the_others_take() {
    let stage = Stage::set().await;
    crowd(&stage, &[50, 1], 100, &["default"]).await;
    stage.meddle("delete from jobforge.jobs where tenant_id = $1 and id <> (select min(id::text)::uuid from jobforge.jobs where tenant_id = $1)", &[&tenant(1)]).await;
    let mut claimer = Claimer::on(&stage);
    assert_eq!(claimer.claim(40, &["default"]).await, 40);
    assert_eq!(claimer.claim(40, &["default"]).await, 40);
    assert_eq!(claimer.claim(40, &["default"]).await, 21);
}

/// With weights a round has their sum of starts; who has one job waits no longer than a round.
#[tokio::test]
async fn a_small_tenants_wait_is_bounded_by_a_round() {
    let stage = Stage::set().await;
    crowd(&stage, &[10, 10, 10], 300, &["default"]).await;
    for limit in [1, 7, 40] {
        let mut claimer = Claimer::on(&stage);
        claimer.claim(limit, &["default"]).await;
        crowd_one(&stage).await;
        let mut claims = 0;
        while claimer.share(tenant(9)) == 0.0 {
            claimer.claim(limit, &["default"]).await;
            claims += 1;
            assert!(claims <= 31 / limit + 2, "claims of {limit}: {claims} and none of the small one");
        }
    }
}

async fn crowd_one(stage: &Stage) {
    let id = tenant(9);
    stage.tenant(id, "p_name => 'small'").await;
    crate::schema::calls::enqueue_with(stage.app.client(), id, NOOP, "p_priority => 1000").await.unwrap();
}

#[tokio::test]
async fn who_spreads_over_queues_gets_no_more() {
    let stage = Stage::set().await;
    crowd(&stage, &[1, 2], 200, &["default"]).await;
    crowd(&stage, &[1], 200, &["a", "b", "c"]).await;
    for limit in [1, 9] {
        let mut claimer = Claimer::on(&stage);
        for _ in 0..(90 / limit) {
            claimer.claim(limit, &["default", "a", "b", "c"]).await;
        }
        let share = claimer.share(tenant(1)) * 3.0;
        assert!((0.9..=1.1).contains(&share), "claims of {limit}: {share} of its share");
    }
}

#[tokio::test]
async fn two_hundred_tenants_have_their_shares() {
    let weights: Vec<i32> = (0..200).map(|n| 1 + n % 5).collect();
    let total: i32 = weights.iter().sum();
    for limit in [16, 100] {
        let stage = Stage::set().await;
        crowd(&stage, &weights, 60, &["default"]).await;
        let mut claimer = Claimer::on(&stage);
        let mut starts = 0;
        while starts < 10 * usize::try_from(total).unwrap() {
            starts += claimer.claim(limit, &["default"]).await;
        }
        for (n, weight) in (1..).zip(&weights) {
            let share = claimer.share(tenant(n)) * f64::from(total) / f64::from(*weight);
            assert!(
                (0.9..=1.1).contains(&share),
                "claims of {limit}: tenant {n} of weight {weight} has {share}"
            );
        }
    }
}
