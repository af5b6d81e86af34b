//! The one Postgres that all test processes of a checkout share.

use std::fs;

use jobforge_postgres::{Address, Cluster, Durability, Settings};
use tokio::sync::OnceCell;

use crate::or_fail::OrFail;
use crate::run::{Run, binaries};

/// Its address; it is started by the first process that asks.
pub(crate) async fn shared_cluster() -> &'static Address {
    static ADDRESS: OnceCell<Address> = OnceCell::const_new();
    ADDRESS
        .get_or_init(|| async {
            tokio::task::spawn_blocking(join_or_start).await.or_fail("join the shared test Postgres")
        })
        .await
}

fn join_or_start() -> Address {
    let run = Run::join();
    let data_dir = run.shared_data_dir();
    let _gate = run.gate();
    if let Some(address) = Cluster::running(&data_dir).or_fail("look for the shared test Postgres") {
        return address;
    }
    // Data of a run that ended with the machine: half-made templates and dead databases.
    if data_dir.exists() {
        fs::remove_dir_all(&data_dir).or_fail("remove the data of an earlier run");
    }
    let mut cluster = Cluster::start(Settings {
        durability: Durability::Unsafe,
        max_connections: 300,
        ..Settings::new(data_dir, binaries())
    })
    .or_fail("start the shared test Postgres");
    cluster.leave_running();
    cluster.address().clone()
}
