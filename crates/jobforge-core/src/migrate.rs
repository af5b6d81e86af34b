//! Brings a database's schema up to date: numbered migrations once each, functions whenever their text
//! changed.
//!
//! Migrations are history: each runs in a transaction of its own and is recorded with its hash, and one
//! that was edited afterwards is refused. Functions are the present: the files that changed are applied
//! again, all in one transaction. Two migrators wait for each other, and DDL never stands in a lock's queue
//! for long, because workers would queue behind it.

mod files;
mod record;
mod snapshot;
mod step;

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient};

use crate::connect::{Backoff, with_connection};
use crate::error::Error;
use files::Source;
use record::Records;
pub use record::{FileState, Status};
pub use snapshot::{Drift, Fact, Part, drift, snapshot};

/// Longer than two minutes of a table in constant use is a matter for people.
const MAX_ATTEMPTS: u32 = 12;

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The migrations, in their order.
    pub applied: Vec<Applied>,
    /// The files of functions.
    pub functions_changed: Vec<String>,
}

/// A migration that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its number.
    pub version: i32,
    /// Its file's name, e.g. `0001_roles`.
    pub name: String,
    /// How long it took, with the waits for locks.
    pub took: Duration,
}

/// What a run would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The migrations, in their order.
    pub migrations: Vec<String>,
    /// The files of functions.
    pub functions: Vec<String>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.migrations.is_empty() && self.functions.is_empty()
    }
}

/// A schema that was not brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// A migration's text is not the one that was applied.
    #[error("migration {name} was edited after it had been applied: write a new migration instead")]
    Edited {
        /// Its file's name.
        name: String,
    },
    /// The database is ahead of this program.
    #[error(
        "the database has migration {version} ({name}), which this program does not know: upgrade the program"
    )]
    Newer {
        /// Its number.
        version: i32,
        /// Its file's name.
        name: String,
    },
    /// A file did not run.
    #[error("{name} could not be applied")]
    Failed {
        /// Its file's name.
        name: String,
        /// What the database said.
        #[source]
        source: tokio_postgres::Error,
    },
}

impl MigrateError {
    pub(crate) fn driver_error(&self) -> Option<&tokio_postgres::Error> {
        match self {
            MigrateError::Failed { source, .. } => Some(source),
            MigrateError::Edited { .. } | MigrateError::Newer { .. } => None,
        }
    }
}

/// Applies what is missing. Needs a login with CREATEROLE that owns the database; a direct URL or one of a
/// transaction pooler.
pub async fn up(url: &str) -> Result<Report, Error> {
    bring(url, Functions::Changed).await
}

/// Applies what is missing, and every function again: mends functions that were changed by hand, of which the
/// records know nothing.
pub async fn reapply(url: &str) -> Result<Report, Error> {
    bring(url, Functions::All).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Functions {
    /// Those whose text is not the recorded one.
    Changed,
    /// Whatever is recorded.
    All,
}

async fn bring(url: &str, which: Functions) -> Result<Report, Error> {
    with_connection(url, |lock| async move {
        // In a transaction on a connection of its own, for the whole run: a session's lock would not
        // survive a pooler, and the files' own transactions end one by one.
        lock.batch_execute(step::HOLD_LOCK).await.map_err(|error| Error::call("migrate", error))?;
        let report = with_connection(url, async |client| run(&client, which).await).await;
        // Whether or not this is heard: the lock ends with its connection, and the work is done.
        let _ = lock.batch_execute("commit").await;
        report
    })
    .await
}

/// What [`up`] would do, or why it would refuse.
pub async fn plan(url: &str) -> Result<Plan, Error> {
    with_connection(url, async |client| {
        let (source, records) = (Source::embedded(), Records::read(&client).await?);
        records.verify(&source)?;
        Ok(Plan {
            migrations: records.pending(&source).map(|file| file.name.to_owned()).collect(),
            functions: records.changed(&source).map(|file| file.name.to_owned()).collect(),
        })
    })
    .await
}

/// How the database's schema stands to this program's, as an operator or the migrating login sees it.
pub async fn status<C: GenericClient>(client: &C) -> Result<Status, Error> {
    Ok(Records::read(client).await?.status(&Source::embedded()))
}

/// All of it as one script for an empty database, for people who apply it by hand. It records what it
/// does, so that [`up`] finds nothing to do afterwards.
pub fn print() -> String {
    let source = Source::embedded();
    let mut script = String::from("-- The schema of JobForge, for an empty database.\n\n");
    for file in &source.migrations {
        script.push_str(&step::migration(file));
    }
    script.push_str(&step::functions(&source.functions, &source));
    script
}

/// A hash of every SQL file: two programs with the same hash make the same schema.
pub fn schema_hash() -> String {
    Source::embedded().hash()
}

async fn run(client: &Client, which: Functions) -> Result<Report, Error> {
    let (source, records) = (Source::embedded(), Records::read(client).await?);
    records.verify(&source)?;
    let mut report = Report::default();
    for file in records.pending(&source) {
        let start = Instant::now();
        apply(client, file.name, &step::migration(file)).await?;
        tracing::info!(migration = file.name, "applied a migration");
        report.applied.push(Applied {
            version: file.version,
            name: file.name.to_owned(),
            took: start.elapsed(),
        });
    }
    let changed: Vec<_> = match which {
        Functions::Changed => records.changed(&source).cloned().collect(),
        Functions::All => source.functions.clone(),
    };
    if !changed.is_empty() || records.has_stale_functions(&source) {
        apply(client, "the functions", &step::functions(&changed, &source)).await?;
        tracing::info!(files = changed.len(), "applied functions");
        report.functions_changed = changed.iter().map(|file| file.name.to_owned()).collect();
    }
    Ok(report)
}

/// Runs one step, again and again while others are in its way.
async fn apply(client: &Client, name: &str, sql: &str) -> Result<(), MigrateError> {
    let mut backoff = Backoff::new();
    let mut attempt = 1;
    loop {
        let Err(source) = client.batch_execute(sql).await else { return Ok(()) };
        // Ends the failed transaction; if the connection is gone, the server has done it.
        let _ = client.batch_execute("rollback").await;
        if attempt == MAX_ATTEMPTS || !is_in_the_way(&source) {
            return Err(MigrateError::Failed { name: name.to_owned(), source });
        }
        tracing::warn!(step = name, attempt, "a lock is held by others, trying again");
        sleep(backoff.next_delay()).await;
        attempt += 1;
    }
}

/// Somebody else holds a lock, or changes the same role or grant from another database of the cluster.
fn is_in_the_way(error: &tokio_postgres::Error) -> bool {
    let passing =
        [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    error.as_db_error().is_some_and(|db| {
        passing.contains(db.code())
            || (*db.code() == SqlState::INTERNAL_ERROR && db.message().contains("concurrently"))
    })
}
