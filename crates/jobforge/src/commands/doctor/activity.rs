//! Who keeps vacuum from removing dead rows: old transactions and snapshots, abandoned slots, prepared
//! transactions.

use jobforge_core::Error;
use tokio_postgres::Client;

use super::Check;
use super::server::failed;

/// A snapshot that saw this many transactions go by is old.
const OLD_SNAPSHOT: i32 = 1_000_000;
const OLD_TRANSACTION_SECONDS: i32 = 15 * 60;

pub(super) async fn checks(client: &Client) -> Vec<Check> {
    vec![
        Check::made("old transactions", transactions(client).await),
        Check::made("snapshot holders", holders(client).await),
    ]
}

/// Without `pg_read_all_stats` only this login's sessions show when they began; the snapshots' ages show for
/// all.
async fn transactions(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "old transactions";
    let sql = "select a.pid, coalesce(a.usename::text, ''), coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::integer,
                 coalesce(pg_catalog.age(a.backend_xmin), 0)
               from pg_catalog.pg_stat_activity a
               where a.pid <> pg_catalog.pg_backend_pid() and (a.backend_xmin is not null or a.xact_start is not null)
                 and a.backend_type = 'client backend'
               order by 4 desc, 3 desc limit 1";
    let row = client.query_typed_opt(sql, &[]).await.map_err(|source| failed("old transactions", source))?;
    let Some(row) = row else { return Ok(Check::ok(NAME, "none open")) };
    let (pid, login): (i32, String) = (row.get(0), row.get(1));
    let (seconds, age): (i32, i32) = (row.get(2), row.get(3));
    let found = format!("the oldest is {age} transactions old (pid {pid}, {login}, open for {seconds} s)");
    Ok(if seconds > OLD_TRANSACTION_SECONDS || age > OLD_SNAPSHOT {
        Check::warn(NAME, found)
            .advice(format!("dead rows stay while it is open; select pg_terminate_backend({pid})"))
    } else {
        Check::ok(NAME, found)
    })
}

async fn holders(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "snapshot holders";
    let sql = "select 'replication slot ' || s.slot_name, greatest(pg_catalog.age(s.xmin), pg_catalog.age(s.catalog_xmin))
               from pg_catalog.pg_replication_slots s where s.xmin is not null or s.catalog_xmin is not null
               union all
               select 'prepared transaction ' || p.gid, pg_catalog.age(p.transaction) from pg_catalog.pg_prepared_xacts p
               order by 2 desc";
    let rows = client.query_typed(sql, &[]).await.map_err(|source| failed("snapshot holders", source))?;
    let old: Vec<String> =
        rows.iter().filter(|row| row.get::<_, i32>(1) > OLD_SNAPSHOT).map(|row| row.get(0)).collect();
    Ok(if old.is_empty() {
        Check::ok(NAME, format!("{} slots and prepared transactions, none of them old", rows.len()))
    } else {
        Check::warn(NAME, old.join(", ")).advice("drop slots that nobody reads, end prepared transactions")
    })
}
