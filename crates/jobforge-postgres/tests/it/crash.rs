//! Servers that ended without cleaning up.

use std::fs;
use std::path::Path;

use jobforge_postgres::Cluster;

use crate::{connect, open_dir, start};

#[tokio::test]
async fn a_killed_server_recovers_with_its_commits() {
    let dir = open_dir();
    let mut cluster = start(&dir.path().join("pg"));
    let port = cluster.port();
    connect(&cluster).await.batch_execute("create table kept as select 1").await.unwrap();
    cluster.kill().unwrap();
    cluster.restart().unwrap();
    assert!(cluster.owned());
    assert_eq!(cluster.port(), port);
    connect(&cluster).await.query_one("select * from kept", &[]).await.unwrap();
}

#[tokio::test]
async fn the_pid_file_of_a_killed_server_does_not_stop_a_new_start() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let mut cluster = start(&data_dir);
    cluster.kill().unwrap();
    assert!(data_dir.join("pgdata/postmaster.pid").exists());
    assert!(Cluster::running(&data_dir).unwrap().is_none());
    connect(&start(&data_dir)).await;
}

#[tokio::test]
async fn a_pid_that_went_to_another_process_is_not_taken_for_the_server() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let mut cluster = start(&data_dir);
    cluster.kill().unwrap();
    rewrite_pid(&data_dir.join("pgdata/postmaster.pid"));
    assert!(!Cluster::stop_data_dir(&data_dir).unwrap());
    connect(&start(&data_dir)).await;
}

#[tokio::test]
async fn a_stopped_server_restarts() {
    let dir = open_dir();
    let mut cluster = start(&dir.path().join("pg"));
    cluster.restart().unwrap();
    cluster.stop().unwrap();
    cluster.restart().unwrap();
    connect(&cluster).await;
}

/// Puts this test's own process, which certainly lives, where the server's was.
fn rewrite_pid(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    fs::write(path, format!("{}\n{rest}", std::process::id())).unwrap();
}
