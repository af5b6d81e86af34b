//! What a claim reads, counted: the same whatever else is stored.

use jobforge_testkit::TestDb;

use super::fill::{Jobs, fill, fill_history, quiet};
use super::watch::Watched;
use crate::schema::{NOOP, OTHER, WORKER, migrated};

/// Rows of `jobs` looked at, and pages touched, by a claim of a hundred that is then rolled back. The least of several:
/// the first one plans, and any of them may have to read the catalogue anew.
async fn cost_of_a_claim(db: &TestDb, types: &str) -> (u64, u64) {
    let mut worker = Watched::login(db, WORKER).await;
    let claim = format!(
        "select id from jobforge.claim_jobs('w1', '{{default}}', '{types}', 100) where id is not null"
    );
    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..4 {
        worker.run("begin").await;
        let seen = worker.call(&claim, &[]).await;
        assert_eq!(seen.rows.len(), 100, "the claim is not full");
        let tuples = seen.scans.iter().filter(|scan| scan.table == "jobs").map(|scan| scan.tuples).sum();
        least = (least.0.min(tuples), least.1.min(seen.pages));
        worker.run("rollback").await;
    }
    least
}

/// An index of more pages is a level or two higher, and a claim goes down it for each tenant.
fn assert_unmoved(what: &str, now: (u64, u64), before: (u64, u64)) {
    println!("{what}: {now:?} after {before:?}");
    assert_eq!(now.0, before.0, "{what}: a claim looks at more jobs");
    assert!(now.1 <= before.1 * 2, "{what}: a claim touches {} pages instead of {}", now.1, before.1);
}

#[tokio::test]
async fn a_claims_cost_does_not_grow_with_others_work() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    fill(&admin, Jobs { count: 2000, tenants: 20, kind: NOOP, state: "ready" }).await;
    let alone = cost_of_a_claim(&db, "{test.noop}").await;
    // A hundred taken and as many walked, a row for each tenant's turn, what a look counts, and nothing else.
    assert!(alone.0 <= 2 * 100 + 2 * 20 + 33, "a claim of 100 looks at {} jobs", alone.0);
    for (what, kind, state, count) in [
        ("100,000 ready jobs of another type", OTHER, "ready", 100_000),
        ("50,000 future jobs", NOOP, "future", 50_000),
        ("20,000 running jobs", NOOP, "running", 20_000),
        ("20,000 dead letters", NOOP, "dead", 20_000),
    ] {
        fill(&admin, Jobs { count, tenants: 20, kind, state }).await;
        assert_unmoved(what, cost_of_a_claim(&db, "{test.noop}").await, alone);
    }
    fill_history(&admin, 50_000).await;
    admin.batch_execute("analyze").await.expect("analyze");
    assert_unmoved("finished jobs, and new statistics", cost_of_a_claim(&db, "{test.noop}").await, alone);
}

#[tokio::test]
async fn a_claims_cost_does_not_grow_with_its_own_backlog() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    fill(&admin, Jobs { count: 2000, tenants: 20, kind: NOOP, state: "ready" }).await;
    fill(&admin, Jobs { count: 2000, tenants: 20, kind: OTHER, state: "ready" }).await;
    for types in ["{test.noop}", "{test.noop,test.other}"] {
        let few = cost_of_a_claim(&db, types).await;
        fill(&admin, Jobs { count: 50_000, tenants: 20, kind: NOOP, state: "ready" }).await;
        assert_unmoved(types, cost_of_a_claim(&db, types).await, few);
    }
}

/// Suspects and reserved work stand in one index: many of the one must not be walked in search of the other.
#[tokio::test]
async fn a_claims_cost_does_not_grow_with_reserved_work() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    fill(&admin, Jobs { count: 500, tenants: 20, kind: NOOP, state: "reserved" }).await;
    let few = cost_of_a_claim(&db, "{test.noop}").await;
    fill(&admin, Jobs { count: 20_000, tenants: 20, kind: NOOP, state: "reserved" }).await;
    assert_unmoved("20,000 reserved jobs", cost_of_a_claim(&db, "{test.noop}").await, few);
}

/// The rows that a claim reads in all tables, the least of several looks; it takes `wanted` jobs and is rolled back.
async fn rows_read(db: &TestDb, limit: i32, wanted: usize) -> u64 {
    let mut worker = Watched::login(db, WORKER).await;
    let claim = format!(
        "select id from jobforge.claim_jobs('w1', '{{default}}', '{{test.noop}}', {limit}) where id is not null"
    );
    let mut least = u64::MAX;
    for _ in 0..3 {
        worker.run("begin").await;
        let seen = worker.call(&claim, &[]).await;
        assert_eq!(seen.rows.len(), wanted, "the claim took something else");
        least = least.min(seen.scans.iter().map(|scan| scan.tuples).sum());
        worker.run("rollback").await;
    }
    least
}

/// All tenants but the last are at their limit of one: a claim finds the last, however many they are.
#[tokio::test]
async fn a_claims_cost_does_not_grow_with_tenants_at_their_limit() {
    let mut read = Vec::new();
    for tenants in [1_000, 10_000] {
        let db = migrated().await;
        let admin = quiet(&db).await;
        fill(&admin, Jobs { count: 3 * tenants, tenants, kind: NOOP, state: "ready" }).await;
        fill(&admin, Jobs { count: tenants, tenants, kind: OTHER, state: "running" }).await;
        let limit = "update jobforge.tenants set max_in_flight = 1
                     where name = 'filled' and id <> (select id from jobforge.tenants where name = 'filled' order by id desc limit 1);
                     insert into jobforge.limited_runs (kind, name, tenant_id, job_id, lease_id, fence)
                     select 'tenant', j.tenant_id::text, j.tenant_id, j.id, j.lease_id, j.fence from jobforge.jobs j
                     where j.status = 'running'; analyze";
        admin.batch_execute(limit).await.expect("fill the limits");
        // Whoever comes first lists the tenants that are free; the others go by the list for a while.
        let first = "select from jobforge.claim_jobs('w2', '{default}', '{test.noop}', 1)";
        Watched::login(&db, WORKER).await.run(first).await;
        let keep = "update jobforge.turn_refreshes set refreshed_at = clock_timestamp() + interval '1 hour'";
        admin.batch_execute(keep).await.expect("keep the list");
        read.push(rows_read(&db, 10, 2).await);
    }
    println!("rows read with 1,000 and with 10,000 tenants: {read:?}");
    assert!(read[1] <= read[0] + 100, "a claim reads more where more tenants are full: {read:?}");
}

/// Of a key that is busy nothing is walked.
#[tokio::test]
async fn a_claims_cost_does_not_grow_with_the_jobs_of_a_busy_key() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    let mut read = Vec::new();
    for count in [1_000, 100_000] {
        fill(&admin, Jobs { count, tenants: 1, kind: NOOP, state: "ready" }).await;
        let sql = "update jobforge.jobs set concurrency_key = 'busy', keyed = true where status = 'queued'; analyze";
        admin.batch_execute(sql).await.expect("give them a key");
        if read.is_empty() {
            Watched::login(&db, WORKER)
                .await
                .run("select from jobforge.claim_jobs('w2', '{default}', '{test.noop}', 1)")
                .await;
        }
        read.push(rows_read(&db, 10, 0).await);
    }
    println!("rows read with 1,000 and with 100,000 jobs: {read:?}");
    assert!(read[1] <= read[0] + 10, "a claim reads more where a busy key has more jobs: {read:?}");
}
