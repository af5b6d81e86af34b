//! A worker behind PgBouncer in transaction mode, where every statement may meet another session.

use jobforge_testkit::{Pooler, WORKER};
use jobforge_worker::{HandlerError, Level, Outcome, WorkerConfig};
use serde_json::{Value, json};

use crate::support::{Story, echo, eventually};

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
    // What a session of the pool listened to would be sent to whoever uses it next.
    let (pooled, connection) = tokio_postgres::connect(pooler.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    eventually("the pool's session listens to nothing", async || {
        let told = pooled.simple_query("select pg_listening_channels()").await.unwrap();
        let channels = told.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        let channels: Vec<String> = channels.collect();
        assert!(channels.iter().all(|channel| channel == "jobforge_test"), "{channels:?}");
        channels.is_empty().then_some(())
    })
    .await;
    // Polling finds it.
    let id = story.enqueue(json!(0)).await;
    story.until(id, "succeeded").await;
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
