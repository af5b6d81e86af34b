//! What was applied to a database, compared with what this program has.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::{GenericClient, Row};

use super::MigrateError;
use super::files::{File, Source};
use crate::error::Error;

/// How a database's schema stands to this program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The migrations this program has, in their order.
    pub migrations: Vec<(String, FileState)>,
    /// The files of functions this program has, in their order.
    pub functions: Vec<(String, FileState)>,
    /// Migrations of the database that this program does not know: the program is too old.
    pub newer: Vec<String>,
}

/// How one file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Applied as it is.
    Applied {
        /// When.
        at: Timestamp,
    },
    /// Not applied.
    Pending,
    /// Another text of it was applied: for functions a run mends it, for a migration it refuses.
    Differs,
}

impl Status {
    /// Whether schema and program fit.
    pub fn is_current(&self) -> bool {
        let files = self.migrations.iter().chain(&self.functions);
        self.newer.is_empty()
            && files.into_iter().all(|(_, state)| matches!(state, FileState::Applied { .. }))
    }
}

/// What a database recorded.
#[derive(Default)]
pub(super) struct Records {
    migrations: BTreeMap<i32, Record>,
    functions: BTreeMap<String, Record>,
}

struct Record {
    name: String,
    sha256: String,
    at: Timestamp,
}

impl Records {
    pub(super) async fn read<C: GenericClient>(client: &C) -> Result<Records, Error> {
        let failed = |error| Error::call("read the schema's records", error);
        // From the catalog, which can be asked before there is a schema.
        let made =
            "select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = 'jobforge' and c.relname = 'schema_migrations'";
        if client.query_typed_opt(made, &[]).await.map_err(failed)?.is_none() {
            return Ok(Records::default());
        }
        let migrations = "select name, sha256, applied_at, version from jobforge.schema_migrations";
        let functions = "select name, sha256, applied_at from jobforge.schema_functions";
        let mut records = Records::default();
        for row in client.query_typed(migrations, &[]).await.map_err(failed)? {
            records.migrations.insert(row.try_get(3).map_err(failed)?, record(&row).map_err(failed)?);
        }
        for row in client.query_typed(functions, &[]).await.map_err(failed)? {
            let record = record(&row).map_err(failed)?;
            records.functions.insert(record.name.clone(), record);
        }
        Ok(records)
    }

    /// Refuses what a run could only make worse.
    pub(super) fn verify(&self, source: &Source) -> Result<(), MigrateError> {
        for (version, record) in &self.migrations {
            match source.migrations.iter().find(|file| file.version == *version) {
                None => return Err(MigrateError::Newer { version: *version, name: record.name.clone() }),
                Some(file) if file.sha256 != record.sha256 => {
                    return Err(MigrateError::Edited { name: file.name.to_owned() });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The migrations to apply.
    pub(super) fn pending<'a>(&self, source: &'a Source) -> impl Iterator<Item = &'a File> {
        source.migrations.iter().filter(|file| !self.migrations.contains_key(&file.version))
    }

    /// The files of functions to apply.
    pub(super) fn changed<'a>(&self, source: &'a Source) -> impl Iterator<Item = &'a File> {
        source
            .functions
            .iter()
            .filter(|file| self.functions.get(file.name).is_none_or(|record| record.sha256 != file.sha256))
    }

    /// Whether a file of functions is recorded that this program no longer has.
    pub(super) fn has_stale_functions(&self, source: &Source) -> bool {
        self.functions.keys().any(|name| source.functions.iter().all(|file| file.name != name))
    }

    pub(super) fn status(&self, source: &Source) -> Status {
        let migrations = source.migrations.iter().map(|file| state(file, self.migrations.get(&file.version)));
        let functions = source.functions.iter().map(|file| state(file, self.functions.get(file.name)));
        let is_known = |version: &i32| source.migrations.iter().any(|file| file.version == *version);
        let newer = self.migrations.iter().filter(|(version, _)| !is_known(version));
        Status {
            migrations: migrations.collect(),
            functions: functions.collect(),
            newer: newer.map(|(_, record)| record.name.clone()).collect(),
        }
    }
}

fn state(file: &File, record: Option<&Record>) -> (String, FileState) {
    let state = match record {
        None => FileState::Pending,
        Some(record) if record.sha256 == file.sha256 => FileState::Applied { at: record.at },
        Some(_) => FileState::Differs,
    };
    (file.name.to_owned(), state)
}

fn record(row: &Row) -> Result<Record, tokio_postgres::Error> {
    Ok(Record { name: row.try_get(0)?, sha256: row.try_get(1)?, at: row.try_get(2)? })
}
