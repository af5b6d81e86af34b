//! Rows that vacuum has not removed, and room that nobody uses any more: claims walk over the first and read the
//! second.

use jobforge_core::Error;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::Check;
use super::server::failed;

/// The tables that change with every job.
const TABLES: [(&str, &str); 3] =
    [("bloat: jobs", "jobs"), ("bloat: leases", "leases"), ("bloat: lease_claims", "lease_claims")];

/// A busy table has some dead rows at any time.
const TOLERATED_DEAD: i64 = 50_000;
/// A small table is no burden, however empty.
const TOLERATED_BYTES: i64 = 64 << 20;
/// What a live row may take on average, with the room that pages keep free: long values are stored elsewhere.
const BYTES_OF_A_ROW: i64 = 16 << 10;

pub(super) async fn checks(client: &Client) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, table) in TABLES {
        checks.push(Check::made(name, look(client, table).await.map(|seen| judge(name, &seen))));
    }
    checks
}

/// A table as the statistics tell it.
struct Seen {
    table: &'static str,
    live: i64,
    dead: i64,
    bytes: i64,
    vacuumed: Option<String>,
    is_vacuumed: bool,
}

async fn look(client: &Client, table: &'static str) -> Result<Seen, Error> {
    let sql = "select s.n_live_tup, s.n_dead_tup, pg_catalog.pg_relation_size(s.relid),
                 to_char(greatest(s.last_vacuum, s.last_autovacuum), 'YYYY-MM-DD HH24:MI'),
                 current_setting('autovacuum')::boolean and 'autovacuum_enabled=false' <> all (coalesce(c.reloptions, '{}'))
               from pg_catalog.pg_stat_all_tables s join pg_catalog.pg_class c on c.oid = s.relid
               where s.schemaname = 'jobforge' and s.relname = $1";
    let problem = |source| failed("bloat", source);
    let row = client.query_typed_one(sql, &[(&table, Type::TEXT)]).await.map_err(problem)?;
    Ok(Seen {
        table,
        live: row.get(0),
        dead: row.get(1),
        bytes: row.get(2),
        vacuumed: row.get(3),
        is_vacuumed: row.get(4),
    })
}

fn judge(name: &'static str, seen: &Seen) -> Check {
    let vacuumed = seen.vacuumed.as_deref().unwrap_or("never");
    let (dead, live, size) = (seen.dead, seen.live, seen.bytes >> 20);
    let found = format!("{dead} dead rows, {live} live, {size} MiB, vacuumed {vacuumed}");
    let table = seen.table;
    if !seen.is_vacuumed {
        Check::warn(name, format!("{found}; autovacuum is off")).advice(format!(
            "switch it on: alter table jobforge.{table} reset (autovacuum_enabled), or autovacuum = on"
        ))
    } else if dead > TOLERATED_DEAD && dead > 3 * live {
        Check::warn(name, found).advice(format!(
            "vacuum does not keep up, or something holds it back (see snapshot holders): vacuum jobforge.{table}"
        ))
    } else if seen.bytes > TOLERATED_BYTES && seen.bytes / BYTES_OF_A_ROW > live {
        Check::warn(name, found).advice(format!(
            "most of its room is unused: vacuum (full) jobforge.{table} at a quiet hour, it locks the table meanwhile"
        ))
    } else {
        Check::ok(name, found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn dead_rows_and_unused_room_are_told_apart_from_a_busy_table() {
        let judged = |live, dead, mib: i64| {
            let seen =
                Seen { table: "jobs", live, dead, bytes: mib << 20, vacuumed: None, is_vacuumed: true };
            let check = judge("bloat: jobs", &seen);
            (check.verdict, check.advice.unwrap_or_default())
        };
        assert_eq!(judged(0, 0, 0).0, Verdict::Ok);
        assert_eq!(judged(0, 40_000, 10).0, Verdict::Ok, "a busy table");
        assert_eq!(judged(1_000_000, 900_000, 2_000).0, Verdict::Ok, "a big one");
        let (verdict, advice) = judged(100, 60_000, 20);
        assert!(verdict == Verdict::Warn && advice.contains("vacuum jobforge.jobs"), "{advice}");
        let (verdict, advice) = judged(100, 0, 900);
        assert!(verdict == Verdict::Warn && advice.contains("vacuum (full)"), "{advice}");
    }
}
