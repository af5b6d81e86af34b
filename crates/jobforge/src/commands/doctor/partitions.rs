//! Are the history's partitions made ahead, and is the default one empty? A row in it keeps the partition of
//! its day from being made.

use jobforge_core::Error;
use tokio_postgres::Client;

use super::Check;
use super::server::failed;

const AHEAD_DAYS: i32 = 7;

pub(super) async fn checks(client: &Client) -> Vec<Check> {
    vec![
        Check::made("partitions ahead", ahead(client).await),
        Check::made("default partition", defaults(client).await),
    ]
}

/// A partition's name ends with the day it begins; how long it lasts depends on its class.
async fn ahead(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "partitions ahead";
    let sql = "select w.parent, floor(extract(epoch from coalesce(
                   max(to_timestamp(right(p.relname, 8) || '+00', 'YYYYMMDDTZH')) + w.step, clock_timestamp())
                   - clock_timestamp()) / 86400)::integer
               from (select t.name || '_' || c.class as parent, c.step
                     from (values ('job_history'), ('attempt_history'), ('log_history'), ('exit_history')) as t(name)
                     cross join (values ('day', interval '1 day'), ('week', interval '1 day'),
                       ('month', interval '7 days'), ('year', interval '1 month')) as c(class, step)) as w
               left join pg_catalog.pg_inherits i on i.inhparent = to_regclass('jobforge.' || w.parent)
               left join pg_catalog.pg_class p on p.oid = i.inhrelid and p.relname ~ '_[0-9]{8}$'
               group by w.parent, w.step order by 2, 1 limit 1";
    let row = client.query_typed_one(sql, &[]).await.map_err(|source| failed("partitions", source))?;
    let (parent, days): (String, i32) = (row.get(0), row.get(1));
    Ok(if days >= AHEAD_DAYS {
        Check::ok(NAME, format!("made for {days} days at least"))
    } else {
        Check::fail(NAME, format!("{parent} has partitions for {days} days only"))
            .advice("a scheduler makes them: run `jobforge schedule` and look at its log")
    })
}

async fn defaults(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "default partition";
    let sql = "select s.relname::text, s.n_live_tup from pg_catalog.pg_stat_all_tables s
               where s.schemaname = 'jobforge' and s.relname like '%\\_default' and s.n_live_tup > 0 order by 1";
    let rows = client.query_typed(sql, &[]).await.map_err(|source| failed("default partitions", source))?;
    let filled: Vec<String> = rows
        .iter()
        .map(|row| format!("{} ({} rows)", row.get::<_, String>(0), row.get::<_, i64>(1)))
        .collect();
    Ok(if filled.is_empty() {
        Check::ok(NAME, "empty, as it should be")
    } else {
        Check::fail(NAME, filled.join(", ")).advice(
            "jobs ended when no partition was there for them; they are deleted in time, but keep theirs from being made",
        )
    })
}
