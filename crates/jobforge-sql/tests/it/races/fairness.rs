//! Whatever one tenant queues, another's turn comes.

use std::collections::HashMap;

use serde_json::json;
use uuid::Uuid;

use super::stage::{Stage, refusal};
use crate::schema::calls::{Claim, ClaimOptions, Held, act_for, claim_with, enqueue_many, enqueue_with};
use crate::schema::{NOOP, TENANT_A, TENANT_B};

/// Claims as one worker does, each from where the last one stopped.
struct Claimer<'a> {
    stage: &'a Stage,
    turn: Option<Uuid>,
}

impl Claimer<'_> {
    async fn claim(&mut self, limit: i32) -> Claim {
        let cursor = Some(json!({ "turn": self.turn, "marks": [] }));
        let o = ClaimOptions { cursor, ..ClaimOptions::default() };
        let claim = claim_with(self.stage.worker.client(), "w1", limit, o).await.unwrap();
        self.turn = claim.turn.or(self.turn);
        claim
    }

    /// How many claims it takes until a job of this tenant comes.
    async fn claims_until(&mut self, tenant: Uuid, limit: i32) -> usize {
        for n in 1..100 {
            if self.claim(limit).await.jobs.iter().any(|job| job.tenant_id == tenant) {
                return n;
            }
        }
        panic!("no job of {tenant} came");
    }
}

/// Tenants besides A and B, each with some jobs at a priority.
async fn crowd(stage: &Stage, tenants: i32, jobs: i32, priority: i32) {
    let sql = "insert into jobforge.tenants (id, name)
               select ('10000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, n::text from generate_series(1, $1) as n";
    stage.admin.execute(sql, &[&tenants]).await.unwrap();
    let fill = format!(
        "do $$ begin
           for n in 1..{tenants} loop
             perform set_config('app.tenant_id', '10000000-0000-0000-0000-' || lpad(n::text, 12, '0'), true);
             perform jobforge.enqueue_jobs(current_setting('app.tenant_id')::uuid, array_fill('{NOOP}'::text, array[{jobs}]),
               array_fill('{{}}'::jsonb, array[{jobs}]), p_priorities => array_fill({priority}, array[{jobs}]));
           end loop;
         end $$"
    );
    stage.other.run(&fill).await;
}

#[tokio::test]
async fn one_job_of_a_small_tenant_starts_within_a_round_whatever_the_big_one_queued() {
    let stage = Stage::set().await;
    for limit in [1, 3, 64, 200] {
        let mut claimer = Claimer { stage: &stage, turn: None };
        let sql = "select count(*) from jobforge.enqueue_jobs($1, array_fill('test.noop'::text, array[400]),
            array_fill('{}'::jsonb, array[400]), p_priorities => array_fill(10, array[400]))";
        act_for(stage.app.client(), TENANT_A).await.unwrap();
        stage.app.query(sql, &[&TENANT_A]).await.unwrap();
        claimer.claim(limit).await;
        enqueue_with(stage.app.client(), TENANT_B, NOOP, "p_priority => 1000").await.unwrap();
        let claims = claimer.claims_until(TENANT_B, limit).await;
        assert!(claims <= 2, "limit {limit}: it took {claims} claims");
    }
}

#[tokio::test]
async fn a_small_tenants_job_starts_within_a_64th_of_the_active_tenants_and_one_claim_more() {
    let stage = Stage::set().await;
    crowd(&stage, 150, 20, 10).await;
    let mut claimer = Claimer { stage: &stage, turn: None };
    claimer.claim(64).await;
    for tenant in [TENANT_B, TENANT_A] {
        enqueue_with(stage.app.client(), tenant, NOOP, "p_priority => 1000").await.unwrap();
        let claims = claimer.claims_until(tenant, 64).await;
        assert!(claims <= 151_usize.div_ceil(64) + 1, "it took {claims} claims");
    }
}

#[tokio::test]
async fn two_big_tenants_get_equal_shares() {
    let stage = Stage::set().await;
    for tenant in [TENANT_A, TENANT_B] {
        enqueue_many(stage.app.client(), tenant, NOOP, 400).await.unwrap();
    }
    for limit in [1, 7, 16] {
        let mut claimer = Claimer { stage: &stage, turn: None };
        let mut shares: HashMap<Uuid, i32> = HashMap::new();
        for _ in 0..20 {
            for job in claimer.claim(limit).await.jobs {
                *shares.entry(job.tenant_id).or_default() += 1;
            }
        }
        let (a, b) = (shares[&TENANT_A], shares[&TENANT_B]);
        assert_eq!(a + b, 20 * limit);
        assert!((a - b).abs() * 10 <= a + b, "limit {limit}: {a} and {b}");
    }
}

#[tokio::test]
async fn nobody_is_left_out_where_the_limit_is_no_multiple_of_the_tenants() {
    for (tenants, limit) in [(3, 4), (60, 61), (128, 100)] {
        let stage = Stage::set().await;
        crowd(&stage, tenants, 30, 100).await;
        let mut claimer = Claimer { stage: &stage, turn: None };
        let mut shares: HashMap<Uuid, i32> = HashMap::new();
        for _ in 0..12 {
            for job in claimer.claim(limit).await.jobs {
                *shares.entry(job.tenant_id).or_default() += 1;
            }
        }
        let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
        assert_eq!(shares.len(), usize::try_from(tenants).unwrap(), "{tenants} tenants, {limit} a claim");
        assert!(most - least <= 2, "{tenants} tenants, {limit} a claim: shares from {least} to {most}");
    }
}

#[tokio::test]
async fn reserved_work_comes_first_and_only_operators_may_enqueue_it() {
    let stage = Stage::set().await;
    stage.jobs(5).await;
    let reserved = "p_priority => 9";
    let refused = enqueue_with(stage.app.client(), TENANT_B, NOOP, reserved).await;
    assert_eq!(refusal(refused), "JF009 priority_reserved");
    let (urgent, _) = enqueue_with(stage.operator.client(), TENANT_B, NOOP, reserved).await.unwrap();
    let (most_urgent, _) =
        enqueue_with(stage.operator.client(), TENANT_A, NOOP, "p_priority => 0").await.unwrap();
    let held = stage.claim(3).await;
    assert_eq!([held[0].id, held[1].id], [most_urgent, urgent]);
    assert_eq!(held[2].priority, 100);
}

#[tokio::test]
async fn paused_tenants_start_nothing_and_stand_in_nobodys_way() {
    let stage = Stage::set().await;
    crowd(&stage, 100, 2, 100).await;
    stage
        .meddle(
            "insert into jobforge.pauses select 'tenant', id, '', 'the test', jobforge.clock() from jobforge.tenants
             where id::text like '1000%'",
            &[],
        )
        .await;
    let (id, _) = enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    let mut claimer = Claimer { stage: &stage, turn: None };
    let mut got = Vec::new();
    for _ in 0..3 {
        got.extend(claimer.claim(10).await.jobs.iter().map(|job| job.id));
    }
    assert_eq!(got, [id]);
}

/// Where everything could be taken at once, a paused tenant's jobs stay all the same.
#[tokio::test]
async fn of_few_jobs_a_paused_tenants_stay() {
    let stage = Stage::set().await;
    let (id, _) = enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    let (paused, _) = enqueue_with(stage.app.client(), TENANT_A, NOOP, "'{}'").await.unwrap();
    stage.operate(&format!("select jobforge.pause('tenant', '{TENANT_A}')")).await;
    let ids = |jobs: Vec<Held>| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(ids(stage.claim(10).await), [id]);
    stage.operate(&format!("select jobforge.resume('tenant', '{TENANT_A}')")).await;
    assert_eq!(ids(stage.claim(10).await), [paused]);
}

/// A claim that asks for little looks at few tenants first. That they are held must not end it: what came a moment after the
/// last look is taken at once, not when a list of the free tenants is made again.
#[tokio::test]
async fn a_small_claim_gets_past_held_tenants_at_once() {
    let stage = Stage::set().await;
    crowd(&stage, 40, 2, 100).await;
    let hold = "insert into jobforge.pauses select 'tenant', id, '', 'the test', jobforge.clock() from jobforge.tenants
                where id::text like '1000%'";
    stage.meddle(hold, &[]).await;
    for limit in [1, 3, 20] {
        let mut claimer = Claimer { stage: &stage, turn: None };
        assert_eq!(claimer.claim(limit).await.jobs, [], "all are held");
        let (id, _) = enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
        let got: Vec<Uuid> = claimer.claim(limit).await.jobs.iter().map(|job| job.id).collect();
        assert_eq!(got, [id], "a claim of {limit}");
    }
}
