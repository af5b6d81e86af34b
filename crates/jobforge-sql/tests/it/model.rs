//! The job machine against a model of it: random steps over seven connections, with transactions that stay open
//! between them and commit or roll back, and after every commit the tables must be what the model says.
//!
//! A run is told by its seed. One run of each set is thrown afresh; its seed is printed, and
//! `JOBFORGE_MODEL_SEED=… cargo nextest run -p jobforge-sql fresh` throws it again.

mod check;
mod dice;
mod machine;
mod run;
mod step_app;
mod step_claim;
mod step_report;
mod step_rule;
mod step_upkeep;
mod track;

use std::time::{SystemTime, UNIX_EPOCH};

use jobforge_testkit::TestDb;

use crate::schema::{NOOP, OTHER, migrated};
use run::{Counts, Run};

/// The job types of a run.
const KINDS: [&str; 2] = [NOOP, OTHER];

/// Drives a database by a seed; the first divergence from the model is the error.
pub(crate) async fn drive(db: &TestDb, seed: u64, steps: usize, patience: &str) -> Result<Counts, String> {
    Run::new(db, seed, patience).await.take(steps).await.map_err(|what| format!("seed {seed}, {what}"))
}

async fn agrees(seed: u64) {
    let db = migrated().await;
    match drive(&db, seed, 2500, "20s").await {
        Err(divergence) => panic!("{divergence}"),
        Ok(counts) => {
            println!("seed {seed}: {counts:?}");
            let enough =
                [counts.claimed, counts.stale, counts.commits, counts.rollbacks, counts.reaped, counts.ruled];
            assert!(enough.iter().all(|n| *n > 20) && counts.refused > 20, "too little happened: {counts:?}");
        }
    }
}

#[tokio::test]
async fn the_tables_follow_the_model_1() {
    agrees(1).await;
}

#[tokio::test]
async fn the_tables_follow_the_model_2() {
    agrees(2).await;
}

#[tokio::test]
async fn the_tables_follow_the_model_3() {
    agrees(3).await;
}

#[tokio::test]
async fn the_tables_follow_the_model_4() {
    agrees(4).await;
}

#[tokio::test]
async fn the_tables_follow_the_model_thrown_afresh() {
    let seed =
        std::env::var("JOBFORGE_MODEL_SEED").ok().map(|seed| seed.parse().expect("a seed is a number"));
    let fresh = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
        now.as_secs() * 1000 + u64::from(now.subsec_millis())
    };
    let seed = seed.unwrap_or_else(fresh);
    println!("JOBFORGE_MODEL_SEED={seed}");
    agrees(seed).await;
}

/// Whoever notifies holds, until the end of its commit, a lock that is one for the whole server: other databases' commits
/// are waited for, and are no divergence.
#[tokio::test]
async fn commits_of_others_that_notify_fail_no_step() {
    let db = migrated().await;
    for _ in 0..16 {
        let one = db.connect_super().await;
        tokio::spawn(
            async move { while one.batch_execute("select pg_notify('elsewhere', '')").await.is_ok() {} },
        );
    }
    drive(&db, 4, 50, "60s").await.unwrap_or_else(|divergence| panic!("{divergence}"));
}
