//! Rows that vacuum has not yet removed: they stand in the way of each claim.

use jobforge_core::Error;
use tokio_postgres::Client;

use super::Check;
use super::server::failed;

pub(super) async fn dead_rows(client: &Client) -> Check {
    Check::made(NAME, look(client).await)
}

const NAME: &str = "dead rows";
/// A busy table has some at any time.
const TOLERATED: i64 = 50_000;

async fn look(client: &Client) -> Result<Check, Error> {
    let sql = "select s.n_live_tup, s.n_dead_tup, pg_catalog.pg_size_pretty(pg_catalog.pg_total_relation_size(s.relid)),
                 coalesce(to_char(greatest(s.last_vacuum, s.last_autovacuum), 'YYYY-MM-DD HH24:MI'), 'never')
               from pg_catalog.pg_stat_all_tables s where s.schemaname = 'jobforge' and s.relname = 'jobs'";
    let row = client.query_typed_one(sql, &[]).await.map_err(|source| failed("dead rows", source))?;
    let (live, dead): (i64, i64) = (row.get(0), row.get(1));
    let (size, vacuumed): (String, String) = (row.get(2), row.get(3));
    let found = format!("jobs: {dead} dead, {live} live, {size}, vacuumed {vacuumed}");
    Ok(if dead > TOLERATED && dead > 3 * live {
        Check::warn(NAME, found)
            .advice("vacuum does not keep up, or an old transaction stops it: see the next checks")
    } else {
        Check::ok(NAME, found)
    })
}
