//! What a measured phase cost Postgres: WAL, transactions, CPU.
//!
//! Read once the contender is connected (connecting is not work on jobs) and again when it has left, because a
//! backend reports its last transactions when it ends. Autovacuum and the background writers are part of the cost;
//! the harness's own queries run in another database and count only towards CPU, where they are nothing.

use anyhow::{Context, Result};
use tokio_postgres::types::Type;

use crate::postgres_cpu::Postmaster;
use crate::server::{Database, Server};

/// A phase's cost, all jobs together.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub wal_bytes: f64,
    pub transactions: f64,
    /// `None` if the server is not on this machine.
    pub cpu_seconds: Option<f64>,
}

/// A running measurement.
pub struct Meter<'a> {
    server: &'a Server,
    postmaster: Option<&'a Postmaster>,
    database: &'a Database,
    before: Cost,
}

impl<'a> Meter<'a> {
    pub async fn start(
        server: &'a Server,
        postmaster: Option<&'a Postmaster>,
        database: &'a Database,
    ) -> Result<Self> {
        let before = read(server, postmaster, database).await?;
        Ok(Self { server, postmaster, database, before })
    }

    pub async fn stop(self) -> Result<Cost> {
        self.server.wait_until_unused(self.database).await?;
        self.so_far().await
    }

    /// What the backends that stay connected have reported by now, which may lag by some seconds.
    pub async fn so_far(&self) -> Result<Cost> {
        let after = read(self.server, self.postmaster, self.database).await?;
        Ok(Cost {
            wal_bytes: after.wal_bytes - self.before.wal_bytes,
            transactions: after.transactions - self.before.transactions,
            cpu_seconds: after.cpu_seconds.zip(self.before.cpu_seconds).map(|(after, before)| after - before),
        })
    }
}

/// The counters as they stand.
async fn read(server: &Server, postmaster: Option<&Postmaster>, database: &Database) -> Result<Cost> {
    let row = server
        .admin()
        .query_typed_one(
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8, xact_commit::float8
             from pg_stat_database where datname = $1",
            &[(&database.name, Type::TEXT)],
        )
        .await
        .context("reading Postgres's counters")?;
    let cpu_seconds = postmaster.map(Postmaster::cpu_seconds).transpose()?;
    Ok(Cost { wal_bytes: row.get(0), transactions: row.get(1), cpu_seconds })
}
