//! What a quick claim holds stays in the claim's order while it runs. Nobody else may take it for waiting.

use uuid::Uuid;

use super::stage::{Stage, ids, rival_claim};
use crate::schema::calls::{ClaimOptions, Held, claim_with, complete, enqueue_many, fail};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B};

async fn quick_claim(stage: &Stage, limit: i32) -> Vec<Held> {
    let o = ClaimOptions { quick: true, ..ClaimOptions::default() };
    claim_with(stage.worker.client(), "w1", limit, o).await.unwrap().jobs
}

/// Whether the job's row stands in the order, is taken out of it, and is held.
async fn stands(stage: &Stage, id: Uuid) -> (bool, bool, bool) {
    let sql = "select ready, taken, lease_id is not null from jobforge.jobs where id = $1";
    let row = stage.admin.query_one(sql, &[&id]).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

async fn enqueue(stage: &Stage, kind: &str, extra: &str) -> Uuid {
    let sql = format!("select id from jobforge.enqueue_job($1, $2{extra})");
    stage.app.query(&sql, &[&TENANT_A, &kind]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn a_quick_claim_writes_no_index() {
    for (quick, hot) in [(true, 100), (false, 0)] {
        let stage = Stage::set().await;
        stage.jobs(100).await;
        stage.worker.begin().await;
        let o = ClaimOptions { quick, ..ClaimOptions::default() };
        assert_eq!(claim_with(stage.worker.client(), "w1", 100, o).await.unwrap().jobs.len(), 100);
        let sql = "select pg_stat_get_xact_tuples_hot_updated('jobforge.jobs'::regclass)";
        let kept: i64 = stage.worker.query(sql, &[]).await.unwrap()[0].get(0);
        stage.worker.commit().await;
        assert_eq!(kept, hot, "quick: {quick}");
    }
}

#[tokio::test]
async fn what_a_quick_claim_holds_is_not_had_again() {
    for types in [vec![NOOP], vec![NOOP, OTHER]] {
        let stage = Stage::set().await;
        let all = stage.jobs(6).await;
        let held = quick_claim(&stage, 4).await;
        assert_eq!(ids(&held), all[..4]);
        assert_eq!(stands(&stage, all[0]).await, (true, false, true));
        // One by one, several, and all that is left.
        let o = || ClaimOptions { types: types.clone(), ..ClaimOptions::default() };
        let one = claim_with(stage.rival.client(), "w2", 1, o()).await.unwrap().jobs;
        assert_eq!(ids(&one), all[4..5]);
        assert_eq!(ids(&rival_claim(&stage.rival, 9).await), all[5..]);
        assert_eq!(rival_claim(&stage.rival, 9).await.len(), 0);
        for job in &held {
            assert_eq!(complete(stage.worker.client(), job).await.unwrap(), "done");
        }
    }
}

#[tokio::test]
async fn lanes_get_their_shares_beside_what_a_quick_claim_holds() {
    let stage = Stage::set().await;
    let first = stage.jobs(4).await;
    assert_eq!(ids(&quick_claim(&stage, 3).await), first[..3]);
    stage.pass(1.0).await;
    let later = enqueue_many(stage.app.client(), TENANT_A, OTHER, 3).await.unwrap();
    // More wait than it asks for: each lane's share is counted.
    let o = ClaimOptions { free: Some(2), ..ClaimOptions::default() };
    let claimed = claim_with(stage.rival.client(), "w2", 3, o).await.unwrap().jobs;
    assert_eq!(ids(&claimed), [first[3], later[0], later[1]]);
}

#[tokio::test]
async fn the_one_job_of_an_idle_system_is_had_on_a_lease_that_holds_quick_ones() {
    let stage = Stage::set().await;
    let all = stage.jobs(2).await;
    let held = quick_claim(&stage, 1).await;
    assert_eq!(ids(&held), all[..1]);
    let o =
        || ClaimOptions { types: vec![NOOP], lease_id: Some(held[0].lease_id), ..ClaimOptions::default() };
    let next = claim_with(stage.worker.client(), "w1", 1, o()).await.unwrap().jobs;
    assert_eq!(ids(&next), all[1..]);
    assert_eq!(stands(&stage, all[1]).await, (false, true, true), "it is taken as ever");
    let none = claim_with(stage.worker.client(), "w1", 1, o()).await.unwrap();
    assert!(none.jobs.is_empty() && !none.more, "{none:?}");
}

#[tokio::test]
async fn what_stands_apart_has_a_key_or_is_limited_leaves_the_order() {
    let stage = Stage::set().await;
    let keyed = enqueue(&stage, NOOP, ", p_concurrency_key => 'k'").await;
    stage.definition(OTHER, "p_max_in_flight => 5").await;
    let limited = enqueue(&stage, OTHER, "").await;
    let plain = enqueue(&stage, NOOP, "").await;
    assert_eq!(quick_claim(&stage, 9).await.len(), 3);
    assert_eq!(stands(&stage, keyed).await, (false, true, true));
    assert_eq!(stands(&stage, limited).await, (false, true, true));
    assert_eq!(stands(&stage, plain).await, (true, false, true));
}

#[tokio::test]
async fn limits_pass_by_what_a_quick_claim_holds() {
    let stage = Stage::set().await;
    let all = stage.jobs(3).await;
    assert_eq!(ids(&quick_claim(&stage, 1).await), all[..1]);
    stage.tenant(TENANT_A, "p_max_in_flight => 2").await;
    assert_eq!(ids(&rival_claim(&stage.rival, 9).await), all[1..2], "one runs, one may");
}

#[tokio::test]
async fn whatever_ends_a_quick_attempt_puts_the_job_where_it_belongs() {
    let stage = Stage::set().await;
    let all = stage.jobs(4).await;
    let held = quick_claim(&stage, 4).await;
    let (future, waiting) = ((false, false, false), (true, false, false));

    fail(stage.worker.client(), &held[0], "retryable").await.unwrap();
    assert_eq!(stands(&stage, all[0]).await, future);
    let args: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&held[1].lease_id, &held[1].tenant_id, &held[1].id, &held[1].fence];
    stage.worker.query("select jobforge.snooze_job($1, $2, $3, $4, 60)", &args).await.unwrap();
    assert_eq!(stands(&stage, all[1]).await, future);
    let sql = "select * from jobforge.release_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer])";
    let args: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&held[2].lease_id, &held[2].tenant_id, &held[2].id, &held[2].fence];
    stage.worker.query(sql, &args).await.unwrap();
    assert_eq!(stands(&stage, all[2]).await, waiting);
    assert_eq!(ids(&rival_claim(&stage.rival, 1).await), [all[2]]);

    stage.pass(31.0).await;
    stage.reap().await;
    assert_eq!(stage.told(all[3]).await, "queued 1/0/1");
    stage.pass(600.0).await;
    let mut again = ids(&rival_claim(&stage.rival, 9).await);
    again.sort_unstable();
    let mut expected = all.clone();
    expected.sort_unstable();
    assert_eq!(again, expected, "all four come again in their time");
}

#[tokio::test]
async fn nobody_counts_what_a_quick_claim_holds_as_waiting() {
    let stage = Stage::set().await;
    let mut all = stage.jobs(3).await;
    stage.pass(5.0).await;
    all.extend(stage.jobs(2).await);
    assert_eq!(ids(&quick_claim(&stage, 3).await), all[..3]);
    let count = async |sql: &str| stage.admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    let counted = "select sum(ready)::bigint from jobforge.count_live(1000, now(), now())";
    assert_eq!(count(counted).await, 2);
    let oldest = "select count(*) from jobforge.count_live(1000, now(), now()) as c
        where c.oldest_ready = (select max(run_at) from jobforge.jobs)";
    assert_eq!(count(oldest).await, 1, "the oldest of those that wait");
    let ahead = "select jobforge.lane_ahead(j, 100) from jobforge.jobs j order by id desc limit 1";
    assert_eq!(count(ahead).await, 1, "of four before the last, three run");

    enqueue_many(stage.other.client(), TENANT_B, NOOP, 1).await.unwrap();
    assert_eq!(quick_claim(&stage, 9).await.len(), 3);
    let row =
        stage.app.query("select ready, running from jobforge.job_summary($1)", &[&TENANT_A]).await.unwrap();
    assert_eq!((row[0].get::<_, i64>(0), row[0].get::<_, i64>(1)), (0, 5));
    let waits = "select count(*) filter (where jobforge.waits_since(k, n) is not null)
        from (values ('queue', 'default'), ('definition', 'test.noop'), ('tenant', $$TENANT$$)) as w(k, n)";
    assert_eq!(count(&waits.replace("TENANT", &TENANT_A.to_string())).await, 0);
    // One more that waits, and is told where it stands.
    let last = stage.job().await;
    let sql = "select detail from jobforge.explain_job($1, $2) where reason = 'waiting_turn'";
    let detail: serde_json::Value = stage.app.query(sql, &[&TENANT_A, &last]).await.unwrap()[0].get(0);
    assert_eq!((&detail["ahead"], &detail["tenants"]), (&0.into(), &1.into()), "{detail}");
}

#[tokio::test]
async fn a_sleepers_look_finds_no_work_in_what_a_quick_claim_holds() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    assert_eq!(quick_claim(&stage, 2).await.len(), 2);
    let mark = "select jobforge.sleep_worker('w2', '{default}', '{test.noop}', 60)";
    stage.rival.query(mark, &[]).await.unwrap();
    let found = async || -> bool {
        stage.rival.query("select found_work from jobforge.look('w2')", &[]).await.unwrap()[0].get(0)
    };
    assert!(!found().await);
    stage.job().await;
    assert!(found().await);
}

/// Whether the tenant that runs comes before the one that waits, or after it.
#[tokio::test]
async fn a_tenants_turn_is_not_spent_on_what_a_quick_claim_holds() {
    for (runs, waits) in [(TENANT_A, TENANT_B), (TENANT_B, TENANT_A)] {
        let stage = Stage::set().await;
        enqueue_many(stage.other.client(), runs, NOOP, 3).await.unwrap();
        assert_eq!(quick_claim(&stage, 3).await.len(), 3);
        enqueue_many(stage.other.client(), waits, NOOP, 2).await.unwrap();
        for turn in [
            "jobforge.lane_tenants('default', 'test.noop')",
            "jobforge.next_tenants(row('{default}', '{test.noop}', '{}', false, false, false, '{}'), null, true, 9, null)",
        ] {
            let sql = format!("select array_agg(t) from {turn} as t");
            let tenants: Vec<Uuid> = stage.admin.query_one(&sql, &[]).await.unwrap().get(0);
            assert_eq!(tenants, [waits], "{turn}");
        }
        let claimed = rival_claim(&stage.rival, 9).await;
        assert!(claimed.len() == 2 && claimed.iter().all(|job| job.tenant_id == waits), "{claimed:?}");
    }
}
