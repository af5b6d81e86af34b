//! A real Postgres in a temporary directory, through everything that may happen to it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod binaries;
mod crash;
mod package;
mod refusal;
mod server_user;
mod setup;
mod start;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jobforge_postgres::{Cluster, Durability, Search, Settings};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A directory that the server's user can reach, unlike a plain temporary one of root.
fn open_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn settings(data_dir: &Path) -> Settings {
    let search = Search { path: std::env::var_os("PATH"), ..Search::default() };
    let binaries = search.find().unwrap();
    Settings { durability: Durability::Unsafe, ..Settings::new(data_dir, binaries) }
}

fn start(data_dir: &Path) -> Cluster {
    Cluster::start(settings(data_dir)).unwrap()
}

async fn connect(cluster: &Cluster) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&cluster.superuser_url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn setting(cluster: &Cluster, name: &str) -> String {
    connect(cluster).await.query_one(&format!("show {name}"), &[]).await.unwrap().get(0)
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
