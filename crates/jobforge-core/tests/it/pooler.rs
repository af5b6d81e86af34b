//! Behind PgBouncer in transaction mode, and on the way to Postgres itself: which questions are sent before the answers.

use std::future::poll_fn;
use std::pin::pin;

use jobforge_core::connect::connect;
use jobforge_testkit::{APP, FaultProxy, PASSWORD, Pooler, Session};
use tokio_postgres::Client;

use crate::story::Story;

/// Waits for a lock that the test holds, and has something to tell then.
const WAIT: &str = "select 'of the one who is gone' from pg_advisory_xact_lock(77)";

async fn hold_lock(story: &Story) -> Session {
    let session = story.db.session().await;
    session.begin().await;
    session.run("select pg_advisory_xact_lock(77)").await;
    session
}

async fn until_somebody_waits(session: &Session) {
    let sql = "select from pg_locks where locktype = 'advisory' and not granted
               and database = (select oid from pg_database where datname = current_database())";
    while session.query(sql, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Sends two questions at once, and reads the first answer.
async fn ask_twice(client: &Client, first: &str, second: &str) {
    let mut one = pin!(client.query_typed(first, &[]));
    let mut other = pin!(client.query_typed(second, &[]));
    let answer = poll_fn(|cx| {
        let answer = one.as_mut().poll(cx);
        assert!(other.as_mut().poll(cx).is_pending(), "it waits for the lock");
        answer
    });
    answer.await.unwrap();
}

#[tokio::test]
async fn whoever_goes_away_leaves_nobody_its_answer() {
    let story = Story::begin().await;
    let pooler = Pooler::start(&story.db, APP).await;
    let held = hold_lock(&story).await;
    let (client, connection) = connect(pooler.url()).await.unwrap();
    let driver = tokio::spawn(connection);
    ask_twice(&client, "select 1", WAIT).await;
    until_somebody_waits(&held).await;
    // As a process ends that is killed: without a word.
    driver.abort();
    assert!(driver.await.unwrap_err().is_cancelled());
    while pooler.lent().await > 0 {
        tokio::task::yield_now().await;
    }

    let url = pooler.url().to_owned();
    let next = tokio::spawn(async move {
        let (client, connection) = connect(&url).await.map_err(|error| format!("{error:?}"))?;
        tokio::spawn(connection);
        let rows = client.query_typed("select 'mine'", &[]).await.map_err(|error| error.to_string())?;
        Ok::<String, String>(rows[0].get(0))
    });
    while !next.is_finished() && pooler.lent().await == 0 {
        tokio::task::yield_now().await;
    }
    held.commit().await;
    assert_eq!(next.await.unwrap().as_deref(), Ok("mine"));
}

#[tokio::test]
async fn on_the_way_to_postgres_itself_no_question_waits_for_an_answer() {
    let story = Story::begin().await;
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    let held = hold_lock(&story).await;
    let (client, connection) = connect(&proxy.through(&story.db.url_as(APP, Some(PASSWORD)))).await.unwrap();
    tokio::spawn(connection);
    let waits = tokio::spawn(async move {
        let after = format!("select '{}'", "x".repeat(10_000));
        ask_twice_and_read(&client, WAIT, &after).await
    });
    until_somebody_waits(&held).await;
    while proxy.connections()[0].to_server < 10_000 {
        tokio::task::yield_now().await;
    }
    held.commit().await;
    assert_eq!(waits.await.unwrap(), 10_000);
}

/// The length of the second answer.
async fn ask_twice_and_read(client: &Client, first: &str, second: &str) -> usize {
    let (first, second) =
        futures_util::future::join(client.query_typed(first, &[]), client.query_typed(second, &[])).await;
    assert_eq!(first.unwrap().len(), 1);
    second.unwrap()[0].get::<_, &str>(0).len()
}
