//! A Postgres for one test alone, to be killed and restarted.

use std::fs;
use std::path::PathBuf;

use jobforge_postgres::{Address, Cluster, Durability, Error, Settings};

use crate::or_fail::OrFail;
use crate::run::{Run, binaries};

/// A cluster of its own, deleted when this is dropped (or by the watchdog, if the test is killed).
#[derive(Debug)]
pub struct PrivateCluster {
    /// `None` only while a blocking call has it.
    cluster: Option<Cluster>,
    address: Address,
    data_dir: PathBuf,
}

impl PrivateCluster {
    /// A cluster without fsync: it survives [`PrivateCluster::kill`] with all commits, and is quick.
    pub async fn start() -> PrivateCluster {
        PrivateCluster::start_with(Durability::Unsafe).await
    }

    /// A cluster with the given durability.
    pub async fn start_with(durability: Durability) -> PrivateCluster {
        let start = move || {
            let data_dir = Run::join().private_data_dir();
            let settings = Settings { durability, ..Settings::new(&data_dir, binaries()) };
            let cluster = Cluster::start(settings).or_fail("start a private test Postgres");
            let address = cluster.address().clone();
            PrivateCluster { cluster: Some(cluster), address, data_dir }
        };
        tokio::task::spawn_blocking(start).await.or_fail("start a private test Postgres")
    }

    /// How to reach it; the same before and after an outage.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The superuser's URL.
    pub fn super_url(&self, dbname: &str) -> String {
        self.address.superuser_url(dbname)
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends the server as a crash would.
    pub async fn kill(&mut self) {
        self.blocking(Cluster::kill).await.or_fail("kill a private test Postgres");
    }

    /// Ends the server in an orderly way.
    pub async fn stop(&mut self) {
        self.blocking(Cluster::stop).await.or_fail("stop a private test Postgres");
    }

    /// Starts the server again, after stopping it if it runs.
    pub async fn restart(&mut self) {
        self.blocking(Cluster::restart).await.or_fail("restart a private test Postgres");
    }

    /// Runs a blocking step off the runtime, so that the tasks of the test go on during an outage.
    async fn blocking(&mut self, step: fn(&mut Cluster) -> Result<(), Error>) -> Result<(), Error> {
        let mut cluster =
            self.cluster.take().expect("a private test Postgres is used after a step was abandoned");
        let done = tokio::task::spawn_blocking(move || {
            let result = step(&mut cluster);
            (cluster, result)
        });
        let (cluster, result) = done.await.or_fail("step a private test Postgres");
        self.cluster = Some(cluster);
        result
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        drop(self.cluster.take());
        // Best effort: the watchdog deletes what is left.
        let _ = fs::remove_dir_all(&self.data_dir);
    }
}
