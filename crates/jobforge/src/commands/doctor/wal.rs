//! How much the server has written, for the bench: bytes of write-ahead log are what a job costs the disk.

use jobforge_core::Error;
use tokio_postgres::Client;

use super::server::failed;

/// All bytes since the server was made.
pub(crate) async fn wal_bytes(client: &Client) -> Result<i64, Error> {
    let sql = "select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint";
    Ok(client.query_typed_one(sql, &[]).await.map_err(|source| failed("wal", source))?.get(0))
}
