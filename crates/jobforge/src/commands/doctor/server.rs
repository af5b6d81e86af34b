//! The server, the login, the clocks, the schema.

use jiff::Timestamp;
use jobforge_core::migrate::{self, FileState};
use jobforge_core::rpc::inspect_server;
use jobforge_core::{Error, Server};
use tokio_postgres::Client;

use super::Check;

/// Before 15.14 there are bugs of Postgres that a queue meets.
const ADVISED_15: i32 = 150_014;

pub(super) async fn checks(client: &Client) -> Vec<Check> {
    let server = match inspect_server(client).await {
        Ok(server) => server,
        Err(error) => return vec![Check::made("server", Err(error))],
    };
    vec![version(&server), login(&server), Check::made("clock", clock(client).await)]
}

/// How the schema stands, and whether there is one at all.
pub(super) async fn schema(client: &Client) -> (Check, bool) {
    const NAME: &str = "schema";
    let status = match migrate::status(client).await {
        Ok(status) => status,
        Err(error) => return (Check::made(NAME, Err(error)), true),
    };
    let is_there = status.migrations.iter().any(|(_, state)| !matches!(state, FileState::Pending));
    let files = || status.migrations.iter().chain(&status.functions);
    let others = files().filter(|(_, state)| !matches!(state, FileState::Applied { .. })).count();
    let edited = status.migrations.iter().filter(|(_, state)| matches!(state, FileState::Differs));
    let edited: Vec<&str> = edited.map(|(name, _)| name.as_str()).collect();
    let check = if status.is_current() {
        Check::ok(NAME, format!("{} files, all applied", files().count()))
    } else if !status.newer.is_empty() {
        Check::fail(
            NAME,
            format!("the database has {}, which this program does not know", status.newer.join(", ")),
        )
        .advice("upgrade this program")
    } else if !edited.is_empty() {
        Check::fail(NAME, format!("another text of {} was applied", edited.join(", ")))
            .advice("no migration mends that: use the program that made the schema, or one released after it")
    } else if is_there {
        Check::fail(NAME, format!("{others} files are missing or differ")).advice("jobforge migrate")
    } else {
        Check::fail(NAME, "there is none").advice("jobforge migrate")
    };
    (check, is_there)
}

fn version(server: &Server) -> Check {
    const NAME: &str = "server";
    let found = format!("Postgres {}.{}", server.version / 10_000, server.version % 10_000);
    match server.version {
        ..150_000 => Check::fail(NAME, found).advice("JobForge needs Postgres 15 or newer"),
        _ if server.read_only => {
            Check::fail(NAME, format!("{found}, read-only")).advice("connect to the primary")
        }
        150_000..ADVISED_15 => Check::warn(NAME, found).advice("update to 15.14 or newer"),
        _ => Check::ok(NAME, found),
    }
}

fn login(server: &Server) -> Check {
    const NAME: &str = "login";
    let login = &server.login;
    let faults = [
        (server.superuser, "is a superuser"),
        (server.bypasses_rls, "bypasses row-level security"),
        (server.owner, "may act as an owner of JobForge's tables"),
    ];
    match faults.iter().find(|(is, _)| *is) {
        Some((_, fault)) => Check::fail(NAME, format!("{login} {fault}")).advice(
            "no process of JobForge starts with it; make a login that is a member of jf_tenant, jf_worker or jf_operator",
        ),
        None => Check::ok(NAME, format!("{login} is bound by row-level security")),
    }
}

/// Only the database's clock decides, but people compare log lines.
async fn clock(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "clock";
    const TOLERATED_MS: i128 = 2000;
    let before = Timestamp::now();
    let row = client
        .query_typed_one("select clock_timestamp()", &[])
        .await
        .map_err(|source| failed("clock", source))?;
    let after = Timestamp::now();
    let there: Timestamp = row.get(0);
    let here = before + after.duration_since(before) / 2;
    let ms = there.duration_since(here).as_millis();
    let found = format!("the database's is {ms} ms ahead of this machine's");
    Ok(if ms.abs() <= TOLERATED_MS {
        Check::ok(NAME, found)
    } else {
        Check::warn(NAME, found).advice("let both follow a time server; jobs go by the database's clock")
    })
}

/// The error of one of the doctor's own queries.
pub(super) fn failed(operation: &'static str, source: tokio_postgres::Error) -> Error {
    Error::Database { operation, source }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_server_is_judged_by_its_version_and_by_whether_it_takes_writes() {
        let judged = |number, read_only| {
            let login = "ann".to_owned();
            let server = Server {
                version: number,
                read_only,
                login,
                superuser: false,
                bypasses_rls: false,
                owner: false,
            };
            let check = version(&server);
            (check.verdict, check.found, check.advice.unwrap_or_default())
        };
        for (number, read_only, verdict, found, advice) in [
            (140_020, false, Verdict::Fail, "Postgres 14.20", "needs Postgres 15"),
            (140_020, true, Verdict::Fail, "Postgres 14.20", "needs Postgres 15"),
            (150_000, false, Verdict::Warn, "Postgres 15.0", "15.14 or newer"),
            (150_013, false, Verdict::Warn, "Postgres 15.13", "15.14 or newer"),
            (150_013, true, Verdict::Fail, "Postgres 15.13, read-only", "connect to the primary"),
            (150_014, false, Verdict::Ok, "Postgres 15.14", ""),
            (170_002, false, Verdict::Ok, "Postgres 17.2", ""),
            (170_002, true, Verdict::Fail, "Postgres 17.2, read-only", "connect to the primary"),
        ] {
            let told = judged(number, read_only);
            assert_eq!((told.0, told.1.as_str()), (verdict, found));
            assert!(told.2.contains(advice) && told.2.is_empty() == advice.is_empty(), "{found}: {}", told.2);
        }
    }
}
