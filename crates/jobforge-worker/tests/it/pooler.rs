//! A worker behind PgBouncer in transaction mode, where every statement may meet another session.

use jobforge_testkit::{FaultPoints, Pooler, WORKER};
use jobforge_worker::{HandlerError, Level, Outcome, WorkerConfig};
use serde_json::{Value, json};

use crate::support::{Story, echo, eventually, faults};

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_everything_works_and_a_deaf_listener_is_not_trusted() {
    let story = Story::begin().await;
    let pooler = Pooler::start(&story.db, WORKER).await;
    let config = WorkerConfig { database_url: pooler.url().to_owned(), ..story.config() };
    let worker = story
        .work(config, |context, payload: Value| async move {
            context.log(Level::Info, "through the pooler").await;
            match payload.as_u64() {
                Some(n) if n % 2 == 0 => Ok(Outcome::done()),
                _ => Err(HandlerError::new("odd").permanent()),
            }
        })
        .await;
    let ids = story.enqueue_numbers(20).await;
    for (n, id) in ids.into_iter().enumerate() {
        story.until(id, if n % 2 == 0 { "succeeded" } else { "failed" }).await;
    }
    // LISTEN succeeds behind a pooler, and even hears itself, but nobody else.
    assert!(!worker.hears());
    // Polling finds it.
    let id = story.enqueue(json!(0)).await;
    story.until(id, "succeeded").await;
    worker.shutdown().await;
}

/// What the pool's only session listens to.
async fn channels(pooler: &Pooler) -> Vec<String> {
    let rows = pooler.connect().await.query_typed("select pg_listening_channels()", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// What a session of the pool is told to listen to is sent to whoever has it next.
#[tokio::test(flavor = "multi_thread")]
async fn a_pools_session_listens_to_nothing_but_the_proof_and_to_nothing_after_it() {
    let story = Story::begin().await;
    let pooler = Pooler::of(1, &story.db, WORKER).await;
    let points = FaultPoints::new();
    points.pause("prove");
    let config =
        WorkerConfig { database_url: pooler.url().to_owned(), faults: faults(&points), ..story.config() };
    let worker = story.work(config, echo).await;
    points.wait_reached("prove").await;
    assert_eq!(channels(&pooler).await, ["jobforge_test"]);
    points.resume("prove");
    eventually("nobody listens", async || channels(&pooler).await.is_empty().then_some(())).await;
    assert!(!worker.hears());
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_way_around_the_pooler_is_heard() {
    let story = Story::begin().await;
    let pooler = Pooler::start(&story.db, WORKER).await;
    let direct = story.config().database_url;
    let config =
        WorkerConfig { database_url: pooler.url().to_owned(), direct_url: Some(direct), ..story.config() };
    let worker = story.work(config, echo).await;
    eventually("the listener hears", async || worker.hears().then_some(())).await;
    let id = story.enqueue(json!(0)).await;
    story.until(id, "succeeded").await;
    worker.shutdown().await;
}
