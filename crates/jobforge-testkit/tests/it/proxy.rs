//! Every way the proxy can fail.

use std::time::{Duration, Instant};

use jobforge_testkit::{Direction, FaultProxy, Mode, TestDb};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

const SHORT: Duration = Duration::from_millis(300);

async fn proxied() -> (TestDb, FaultProxy, Client) {
    let db = TestDb::blank().await;
    let proxy = FaultProxy::start(db.cluster_port()).await;
    let client = db.connect(&proxy.through(&db.super_url())).await;
    (db, proxy, client)
}

async fn works(client: &Client) -> bool {
    client.simple_query("select 1").await.is_ok()
}

async fn reconnects(db: &TestDb, proxy: &FaultProxy) -> bool {
    works(&db.connect(&proxy.through(&db.super_url())).await).await
}

#[tokio::test]
async fn pass_forwards_and_counts() {
    let (_db, proxy, client) = proxied().await;
    assert!(works(&client).await);
    let counts = proxy.connections();
    assert_eq!(counts.len(), 1);
    assert!(counts[0].open && counts[0].to_server > 50 && counts[0].to_client > 50, "{counts:?}");
}

#[tokio::test]
async fn delay_comes_late() {
    let (_db, proxy, client) = proxied().await;
    proxy.set_mode(Mode::Delay(Duration::from_millis(100)));
    let start = Instant::now();
    assert!(works(&client).await);
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn stall_holds_until_the_mode_changes() {
    let (_db, proxy, client) = proxied().await;
    proxy.set_mode(Mode::Stall);
    let query = works(&client);
    tokio::pin!(query);
    assert!(timeout(SHORT, &mut query).await.is_err());
    proxy.set_mode(Mode::Pass);
    assert!(query.await);
}

#[tokio::test]
async fn silence_loses_bytes_and_keeps_the_socket() {
    let (db, proxy, client) = proxied().await;
    proxy.set_mode(Mode::Silence);
    assert!(timeout(SHORT, works(&client)).await.is_err());
    proxy.set_mode(Mode::Pass);
    assert!(timeout(SHORT, works(&client)).await.is_err());
    assert!(proxy.connections()[0].open && !client.is_closed());
    assert!(reconnects(&db, &proxy).await);
}

#[tokio::test]
async fn cut_closes_what_is_open_and_refuse_also_what_comes() {
    let (db, proxy, client) = proxied().await;
    proxy.cut();
    assert!(!works(&client).await);
    assert!(reconnects(&db, &proxy).await);
    proxy.set_mode(Mode::Refuse);
    assert!(tokio_postgres::connect(&proxy.through(&db.super_url()), NoTls).await.is_err());
    proxy.set_mode(Mode::Pass);
    assert!(reconnects(&db, &proxy).await);
}

#[tokio::test]
async fn cut_after_counts_bytes_of_one_direction() {
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (db, proxy, client) = proxied().await;
        assert!(works(&client).await);
        let carried = |proxy: &FaultProxy| match direction {
            Direction::ToServer => proxy.connections()[0].to_server,
            Direction::ToClient => proxy.connections()[0].to_client,
        };
        let before = carried(&proxy);
        proxy.set_mode(Mode::CutAfter { direction, bytes: 7 });
        assert!(!works(&client).await);
        assert_eq!(carried(&proxy), before + 7);
        assert_eq!(proxy.mode(), Mode::Pass);
        assert!(reconnects(&db, &proxy).await);
    }
}

#[tokio::test]
async fn a_commit_happens_whose_answer_is_lost() {
    let (db, proxy, mut client) = proxied().await;
    client.batch_execute("create table kept (n int)").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.execute("insert into kept values (1)", &[]).await.unwrap();
    proxy.cut_between_commit_and_answer();
    assert!(transaction.commit().await.is_err());
    assert_eq!(proxy.mode(), Mode::Pass);
    let rows = db.connect_super().await.query("select n from kept", &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
}

#[tokio::test]
async fn a_prepared_statement_runs_whose_answer_is_lost() {
    let (db, proxy, client) = proxied().await;
    client.batch_execute("create table kept (n int)").await.unwrap();
    let insert = client.prepare("insert into kept values ($1)").await.unwrap();
    client.execute(&insert, &[&1]).await.unwrap();
    proxy.cut_before_answer_to("INSERT INTO kept");
    assert!(client.execute(&insert, &[&2]).await.is_err());
    let rows = db.connect_super().await.query("select n from kept", &[]).await.unwrap();
    assert_eq!(rows.len(), 2);
}

#[tokio::test]
async fn answers_to_earlier_pipelined_statements_still_arrive() {
    let (_db, proxy, client) = proxied().await;
    proxy.cut_before_answer_to("needle");
    let (first, second) =
        tokio::join!(client.simple_query("select pg_sleep(0.1)"), client.simple_query("select 'needle'"));
    assert!(first.is_ok() && second.is_err());
}
