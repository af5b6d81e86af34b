//! Plans: a claim must walk its indexes and take by place, a report must go by place or key, a list by key, whatever the
//! table holds and whatever the planner believes it holds. And what a claim reads must not grow with work that is not
//! its own.

mod cost;
mod enqueues;
mod fill;
mod identity;
mod rules;
mod shape;
mod watch;

use jobforge_testkit::TestDb;
use tokio_postgres::Client;

use crate::schema::{NOOP, OTHER, migrated};
use fill::{Jobs, fill, fill_history, quiet};
use rules::Faults;

/// Every rule in one state of the tables, on fresh sessions.
async fn hold(db: &TestDb, admin: &Client, state: &str) {
    println!("{state}");
    sprinkle(admin).await;
    let mut faults = Faults::default();
    rules::claims_walk_their_indexes(&mut faults, db).await;
    rules::lanes_are_walked_one_by_one(&mut faults, db).await;
    rules::few_jobs_are_taken_at_once(&mut faults, db).await;
    rules::reports_go_by_place_or_key(&mut faults, db).await;
    rules::people_go_by_key(&mut faults, db).await;
    rules::a_batch_is_stored_in_its_order(&mut faults, db).await;
    rules::lists_walk_the_key_backwards(&mut faults, db).await;
    rules::dead_letters_walk_their_index(&mut faults, db).await;
    rules::upkeep_walks_its_indexes(&mut faults, db).await;
    rules::explanations_are_bounded(&mut faults, db).await;
    rules::samples_are_bounded(&mut faults, db).await;
    faults.0.sort();
    faults.0.dedup();
    assert!(faults.0.is_empty(), "{state}:\n{}", faults.0.join("\n"));
}

async fn analyze(admin: &Client) {
    admin.batch_execute("analyze").await.expect("analyze");
}

/// A few jobs of each kind, so that every statement has something to do; and nobody runs a suspect, so that one is picked.
async fn sprinkle(admin: &Client) {
    for (state, count) in [("ready", 120), ("reserved", 3), ("suspect", 3), ("future", 20)] {
        fill(admin, Jobs { count, tenants: 4, kind: NOOP, state }).await;
        fill(admin, Jobs { count, tenants: 4, kind: OTHER, state }).await;
    }
    admin.batch_execute("delete from jobforge.leases where solo").await.expect("end the suspects' leases");
}

#[tokio::test]
async fn a_claim_walks_its_index_and_takes_by_place() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    analyze(&admin).await;
    hold(&db, &admin, "nearly empty, analysed while empty").await;
    analyze(&admin).await;
    hold(&db, &admin, "nearly empty, analysed").await;

    fill(&admin, Jobs { count: 200_000, tenants: 1000, kind: NOOP, state: "ready" }).await;
    fill_history(&admin, 50_000).await;
    hold(&db, &admin, "200,000 jobs of 1,000 tenants, believed to be few").await;
    analyze(&admin).await;
    hold(&db, &admin, "200,000 jobs of 1,000 tenants").await;
}

#[tokio::test]
async fn plans_hold_beside_other_types_and_future_work() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    hold(&db, &admin, "nearly empty, never analysed").await;

    fill(&admin, Jobs { count: 100_000, tenants: 1000, kind: OTHER, state: "ready" }).await;
    analyze(&admin).await;
    hold(&db, &admin, "100,000 jobs of another type").await;
    fill(&admin, Jobs { count: 50_000, tenants: 1000, kind: NOOP, state: "future" }).await;
    hold(&db, &admin, "and 50,000 future jobs, not analysed").await;
    analyze(&admin).await;
    hold(&db, &admin, "and 50,000 future jobs, analysed").await;
    // One tenant has nearly all: what the planner knows of an average tenant is wrong for it.
    fill(&admin, Jobs { count: 100_000, tenants: 1, kind: NOOP, state: "ready" }).await;
    analyze(&admin).await;
    hold(&db, &admin, "and one tenant with 100,000").await;
}

/// The rules themselves must be able to fail.
#[tokio::test]
async fn a_missing_index_is_noticed() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    sprinkle(&admin).await;
    admin.batch_execute("drop index jobforge.jobs_turn").await.expect("drop the claim's index");
    let mut faults = Faults::default();
    rules::claims_walk_their_indexes(&mut faults, &db).await;
    assert!(!faults.0.is_empty(), "no rule misses the claim's index");
}
