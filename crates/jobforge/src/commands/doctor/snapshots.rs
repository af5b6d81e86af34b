//! Who keeps vacuum from removing dead rows: sessions with an old transaction, slots that nobody reads, prepared
//! transactions that nobody ends.

use std::time::Duration;

use jobforge_core::Error;
use tokio_postgres::{Client, Row};

use super::Check;
use super::server::failed;

const NAME: &str = "snapshot holders";
/// A snapshot that saw this many transactions go by is old, however short its time.
const OLD_TRANSACTIONS: i32 = 1_000_000;

pub(super) async fn check(client: &Client, old: Duration) -> Check {
    Check::made(NAME, look(client).await.map(|holders| judge(&holders, old)))
}

/// Something that holds a snapshot or a transaction id.
#[derive(Debug)]
struct Holder {
    kind: Kind,
    /// A session's process.
    pid: i32,
    /// A session's login, a slot's name, a prepared transaction's id.
    name: String,
    state: String,
    /// How many transactions went by since.
    age: i32,
    /// Unknown where this login may not see it.
    seconds: Option<f64>,
    query: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Session,
    Slot,
    Prepared,
}

impl Holder {
    fn of(row: &Row) -> Holder {
        let kind = match row.get::<_, &str>(0) {
            "session" => Kind::Session,
            "slot" => Kind::Slot,
            _ => Kind::Prepared,
        };
        let text = |column: usize| row.get::<_, Option<String>>(column).unwrap_or_default();
        Holder {
            kind,
            pid: row.get(1),
            name: text(2),
            state: text(3),
            age: row.get(4),
            seconds: row.get(5),
            query: text(6),
        }
    }

    fn is_old(&self, old: Duration) -> bool {
        let lasts = self.seconds.is_some_and(|seconds| seconds >= old.as_secs_f64());
        // A slot has no time of its own: only what went by tells that nobody reads it.
        self.age > OLD_TRANSACTIONS || (lasts && self.kind != Kind::Slot)
    }

    /// What to do about it.
    fn remedy(&self) -> String {
        match self.kind {
            Kind::Session => format!("select pg_terminate_backend({})", self.pid),
            Kind::Slot => format!("select pg_drop_replication_slot('{}') if nobody reads it", self.name),
            Kind::Prepared => format!("rollback prepared '{}', or commit it", self.name),
        }
    }

    fn told(&self) -> String {
        let lasts =
            self.seconds.map_or_else(|| "unknown time".to_owned(), |seconds| format!("{seconds:.0} s"));
        let age = format!("{} transactions, {lasts}", self.age);
        match self.kind {
            Kind::Session => {
                let state = if self.state.is_empty() { "state unknown" } else { &self.state };
                let query = self.query.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("pid {}, {}, {state}, {age}: {query}", self.pid, self.name)
            }
            Kind::Slot => {
                format!("replication slot {}, {}, {} transactions", self.name, self.state, self.age)
            }
            Kind::Prepared => format!("prepared transaction {} of {}, {age}", self.name, self.state),
        }
    }
}

/// Vacuum is held back by sessions of its own database and by those of none; vacuum itself holds nobody. Without
/// `pg_read_all_stats` the ages in transactions show for all sessions, everything else for this login's alone.
async fn look(client: &Client) -> Result<Vec<Holder>, Error> {
    let sql = "select 'session', a.pid, a.usename::text, a.state,
                 greatest(coalesce(pg_catalog.age(a.backend_xmin), 0), coalesce(pg_catalog.age(a.backend_xid), 0)),
                 extract(epoch from clock_timestamp() - a.xact_start)::float8, left(a.query, 200)
               from pg_catalog.pg_stat_activity a
               where a.pid <> pg_catalog.pg_backend_pid() and (a.backend_xmin is not null or a.backend_xid is not null)
                 and (a.datname is null or a.datname = pg_catalog.current_database())
                 and coalesce(a.backend_type, '') not like 'autovacuum%'
               union all
               select 'slot', 0, s.slot_name::text, case when s.active then 'read' else 'read by nobody' end,
                 greatest(coalesce(pg_catalog.age(s.xmin), 0), coalesce(pg_catalog.age(s.catalog_xmin), 0)), null, null
               from pg_catalog.pg_replication_slots s where s.xmin is not null or s.catalog_xmin is not null
               union all
               select 'prepared', 0, p.gid, p.owner::text, pg_catalog.age(p.transaction),
                 extract(epoch from clock_timestamp() - p.prepared)::float8, null
               from pg_catalog.pg_prepared_xacts p where p.database = pg_catalog.current_database()
               order by 5 desc, 6 desc nulls last";
    let rows = client.query_typed(sql, &[]).await.map_err(|source| failed(NAME, source))?;
    Ok(rows.iter().map(Holder::of).collect())
}

fn judge(holders: &[Holder], old: Duration) -> Check {
    let hidden =
        holders.iter().filter(|holder| holder.kind == Kind::Session && holder.seconds.is_none()).count();
    let note = match hidden {
        0 => String::new(),
        _ => format!("; of {hidden} this login sees no more than the age: grant it pg_read_all_stats"),
    };
    let found: Vec<&Holder> = holders.iter().filter(|holder| holder.is_old(old)).collect();
    let Some(oldest) = found.first() else {
        return Check::ok(NAME, format!("{}, none of them old{note}", holders.len()));
    };
    Check::warn(NAME, format!("{} of {} are old{note}", found.len(), holders.len()))
        .details(found.iter().map(|holder| holder.told()))
        .advice(format!("dead rows stay while they are there: {}", oldest.remedy()))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn holder(kind: Kind, age: i32, seconds: Option<f64>) -> Holder {
        let text = |text: &str| text.to_owned();
        Holder {
            kind,
            pid: 7,
            name: text("ann"),
            state: text("idle"),
            age,
            seconds,
            query: text("select\n 1"),
        }
    }

    #[test]
    fn old_is_what_lasts_long_or_saw_much_go_by() {
        let quarter = Duration::from_secs(900);
        let judged = |holder| judge(&[holder], quarter);
        assert_eq!(judged(holder(Kind::Session, 10, Some(5.0))).verdict, Verdict::Ok);
        let hidden = judged(holder(Kind::Session, 10, None));
        assert!(hidden.verdict == Verdict::Ok && hidden.found.contains("pg_read_all_stats"), "{hidden:?}");
        let long = judged(holder(Kind::Session, 10, Some(1000.0)));
        assert_eq!(long.verdict, Verdict::Warn);
        assert_eq!(long.details, ["pid 7, ann, idle, 10 transactions, 1000 s: select 1"]);
        for kind in [Kind::Session, Kind::Slot, Kind::Prepared] {
            assert_eq!(judged(holder(kind, 2_000_000, None)).verdict, Verdict::Warn, "{kind:?}");
        }
        let slot = judged(holder(Kind::Slot, 2_000_000, None)).advice.unwrap_or_default();
        assert!(slot.contains("pg_drop_replication_slot('ann')"), "{slot}");
        let prepared = judged(holder(Kind::Prepared, 1, Some(1000.0))).advice.unwrap_or_default();
        assert!(prepared.contains("rollback prepared 'ann'"), "{prepared}");
    }
}
