//! Faults put into the SQL on purpose: the model, or a named race, must turn red for each.
//!
//! A test that no fault can turn red proves nothing.

use jobforge_testkit::TestDb;

use crate::model::drive;
use crate::races::stage::{Stage, rival_claim};
use crate::schema::calls::complete;
use crate::schema::{TENANT_A, mutated};

/// Replaces a piece of one SQL file; fails if it is no longer there.
fn put(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the SQL that this mutant changes is gone: {from}");
    text.replace(from, to)
}

/// What a statement that took too long is told with: on a busy machine a sound one may.
const TIMED_OUT: &str = "57014";

/// Runs the model against a mutant until it turns red, by some seeds, and says what it is expected to say, one of these.
/// A statement's timeout says nothing.
async fn red(name: &str, said: &[&str], mutant: impl AsyncFn() -> TestDb) {
    let mut lived = Vec::new();
    for seed in 1..=5 {
        match drive(&mutant().await, seed, 1200, "20s").await {
            Ok(counts) => lived.push(format!("{counts:?}")),
            Err(divergence) if divergence.contains(TIMED_OUT) => lived.push(divergence),
            Err(divergence) => {
                println!("{name}: {divergence}");
                assert!(said.iter().any(|words| divergence.contains(words)), "{name}: {divergence}");
                return;
            }
        }
    }
    panic!("the mutant {name} lived: {lived:?}")
}

#[tokio::test]
async fn a_completion_that_compares_no_fence_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "41_retire.sql" => put(&text, "and (p_fences is null or j.fence = r.fence) for", "for"),
            _ => text,
        })
        .await
    };
    red("fence not compared", &["is done, and should be stale"], mutant).await;
}

#[tokio::test]
async fn a_report_on_a_lapsed_lease_that_is_taken_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "41_retire.sql" => put(&text, "select l.expires_at > p_now and (", "select ("),
            _ => text,
        })
        .await
    };
    red("lease expiry ignored", &["is done, and should be stale"], mutant).await;
}

#[tokio::test]
async fn a_beat_that_forgets_what_it_lists_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "30_heartbeat.sql" => {
                put(&text, "if cardinality(p_job_ids) > 0 then\n      insert", "if false then\n      insert")
            }
            _ => text,
        })
        .await
    };
    red("a beat's list not kept", &["are on no claim's list"], mutant).await;
}

#[tokio::test]
async fn an_attempt_counted_at_its_end_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "20_claim.sql" | "23_few.sql" => {
                put(&text, "fence = j.fence + 1", "fence = greatest(j.fence, 1)")
            }
            "41_retire.sql" => put(&text, "p_now, g.fence, g.failures", "p_now, g.fence + 1, g.failures"),
            "50_fail.sql" => put(
                &text,
                "lease_id = null, ready = false, taken = false, error = left",
                "lease_id = null, ready = false, taken = false, fence = j.fence + 1, error = left",
            ),
            _ => text,
        })
        .await
    };
    red("attempt counted at completion", &["claim numbered"], mutant).await;
}

#[tokio::test]
async fn the_transactions_time_in_place_of_the_clocks_is_found() {
    // Only where reports judge a lease; the model's clock stands in the past of now() or runs ahead of it.
    let by_transaction = async || {
        mutated(|file, text| match file {
            "40_complete.sql" => put(&text, ":= jobforge.clock()", ":= now()"),
            _ => text,
        })
        .await
    };
    red("now() for the clock", &["is done, and should be stale"], &by_transaction).await;

    // And the race that is about nothing else: a lease that lapsed inside of a long transaction.
    let stage = Stage::on(by_transaction().await).await;
    let job = stage.running().await;
    stage.worker.begin().await;
    stage.pass(31.0).await;
    assert_eq!(
        complete(stage.worker.client(), &job).await.unwrap(),
        "done",
        "the mutant takes the late report"
    );
}

#[tokio::test]
async fn a_dedupe_key_without_its_tenant_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "0003_jobs.sql" => put(
                &text,
                "jobs_dedupe on jobforge.jobs (tenant_id, dedupe_key)",
                "jobs_dedupe on jobforge.jobs (dedupe_key)",
            ),
            _ => text,
        })
        .await
    };
    // Another tenant's job is in its way, and it may not see that job: it tries again, and gives up.
    red("dedupe without tenant", &["what is in the way of job"], mutant).await;
}

#[tokio::test]
async fn a_settle_that_knows_no_last_attempt_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "50_fail.sql" => put(&text, "p_outcome = 'retryable' and p_failures >= p_max_attempts", "false"),
            _ => text,
        })
        .await
    };
    red("max_attempts skipped", &["retryable made Some(\"queued\")"], mutant).await;
}

#[tokio::test]
async fn a_limit_counted_by_two_at_once_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "26_limits.sql" => {
                put(&text, "if pg_try_advisory_xact_lock(", "if true or pg_try_advisory_xact_lock(")
            }
            _ => text,
        })
        .await
    };
    // Neither sees the other's claim: what breaks the rule is two claims side by side, so a race tells it.
    let stage = Stage::on(mutant().await).await;
    stage.tenant(TENANT_A, "p_max_in_flight => 1").await;
    stage.jobs(2).await;
    stage.worker.begin().await;
    assert_eq!(stage.claim(1).await.len(), 1);
    assert_eq!(
        rival_claim(&stage.rival, 1).await.len(),
        1,
        "the mutant counts what is not committed as nothing"
    );
}

#[tokio::test]
async fn a_claim_that_charges_no_limit_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "26_limits.sql" => put(&text, "where l.most is not null\n", "where false\n"),
            _ => text,
        })
        .await
    };
    red("runs not noted", &["under a limit of", "of a key"], mutant).await;
}

#[tokio::test]
async fn a_limit_that_knows_nothing_of_what_runs_already_is_found() {
    let mutant = async || {
        mutated(|file, text| match file {
            "26_limits.sql" => put(&text, "if p_since is null then", "if true then"),
            _ => text,
        })
        .await
    };
    red("running jobs not adopted", &["under a limit of"], mutant).await;
}
