//! A server of one's own, through an outage.

use jobforge_testkit::{PrivateCluster, connect};

#[tokio::test]
async fn commits_survive_a_kill() {
    let mut cluster = PrivateCluster::start().await;
    let url = cluster.super_url("postgres");
    let client = connect(&url).await;
    client.batch_execute("create table kept as select 1 as n").await.unwrap();
    cluster.kill().await;
    assert!(client.query("select 1", &[]).await.is_err());
    cluster.restart().await;
    connect(&url).await.query_one("select n from kept", &[]).await.unwrap();
    cluster.stop().await;
    assert!(tokio_postgres::connect(&url, tokio_postgres::NoTls).await.is_err());
}
