//! The schema as one fact a line, told by the catalogs: what this program expects, what a database has, and how
//! they differ.
//!
//! Each line stands for itself, so that a difference is a line that lacks or a line too many. The partitions of days
//! come and go and are left out; so are the texts of functions, which are compared with the files themselves.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::GenericClient;

use super::files::Source;
use crate::error::Error;

/// The snapshot of this program's own schema, made by `cargo xtask snapshot`.
const EXPECTED: &str = include_str!("../../../../sql/schema.snapshot.sql");

const HEADER: &str =
    "-- The schema as the catalogs tell it, one fact a line. Written by `cargo xtask snapshot`.\n";

/// How a database's schema differs from this program's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Facts that the database lacks.
    pub missing: Vec<Fact>,
    /// Facts of the database that are none of ours.
    pub extra: Vec<Fact>,
    /// Functions whose text is another.
    pub functions: Vec<String>,
    /// Indexes that Postgres does not use: their making failed or is not over.
    pub invalid_indexes: Vec<String>,
}

/// One fact about the schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// What it is about.
    pub part: Part,
    /// The fact itself, in the form of a statement.
    pub line: String,
}

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An index.
    Index,
    /// A policy, a grant, row-level security.
    Security,
    /// A function's signature, owner or settings.
    Function,
    /// A table, a column, a constraint, a type, a sequence, a trigger.
    Table,
}

impl Fact {
    fn of(line: &str) -> Fact {
        let part = if line.starts_with("create index ") || line.starts_with("create unique index ") {
            Part::Index
        } else if line.starts_with("create policy ")
            || line.starts_with("grant ")
            || line.contains(" row level security;")
        {
            Part::Security
        } else if line.starts_with("create function ") || line.starts_with("alter function ") {
            Part::Function
        } else {
            Part::Table
        };
        Fact { part, line: line.to_owned() }
    }
}

/// The snapshot of a database's schema, in the form of `sql/schema.snapshot.sql`.
pub async fn snapshot<C: GenericClient>(c: &C) -> Result<String, Error> {
    let rows = c.query_typed(FACTS, &[]).await.map_err(|error| Error::call("snapshot", error))?;
    let mut text = HEADER.to_owned();
    let mut last = String::new();
    for row in rows {
        let (subject, line): (String, String) = (row.get(0), row.get(1));
        if subject != last {
            text.push('\n');
        }
        text.push_str(&line);
        text.push_str(";\n");
        last = subject;
    }
    Ok(text)
}

/// How a database's schema differs from this program's. Any login may ask.
pub async fn drift<C: GenericClient>(c: &C) -> Result<Drift, Error> {
    let found = snapshot(c).await?;
    let (expected, found) = (lines(EXPECTED), lines(&found));
    let facts = |lines: Vec<&&str>| lines.into_iter().map(|line| Fact::of(line)).collect();
    Ok(Drift {
        missing: facts(expected.difference(&found).collect()),
        extra: facts(found.difference(&expected).collect()),
        functions: other_texts(c).await?,
        invalid_indexes: names(c, INVALID_INDEXES).await?,
    })
}

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with("--")).collect()
}

/// The functions whose text in the database is not the files'.
async fn other_texts<C: GenericClient>(c: &C) -> Result<Vec<String>, Error> {
    let rows = c.query_typed(TEXTS, &[]).await.map_err(|error| Error::call("snapshot", error))?;
    let expected = texts();
    let differs =
        |(name, text): &(String, String)| expected.get(name.as_str()).is_some_and(|own| own != text);
    let found = rows.iter().map(|row| (row.get(0), row.get(1)));
    Ok(found.filter(differs).map(|(name, _)| name).collect())
}

/// The text of each function by its name, as Postgres keeps it: all between the dollar signs.
fn texts() -> BTreeMap<&'static str, &'static str> {
    let mut texts = BTreeMap::new();
    for file in Source::embedded().functions {
        for definition in file.sql.split("create or replace function jobforge.").skip(1) {
            let name = definition.split('(').next().unwrap_or_default();
            if let Some(text) = definition.split("$$").nth(1) {
                texts.insert(name, text);
            }
        }
    }
    texts
}

async fn names<C: GenericClient>(c: &C, sql: &str) -> Result<Vec<String>, Error> {
    let rows = c.query_typed(sql, &[]).await.map_err(|error| Error::call("snapshot", error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

const TEXTS: &str = "select p.proname::text, p.prosrc from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace and n.nspname = 'jobforge' order by 1";

const INVALID_INDEXES: &str = "select c.relname::text from pg_catalog.pg_index i
    join pg_catalog.pg_class c on c.oid = i.indexrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = 'jobforge'
    where not (i.indisvalid and i.indisready) order by 1";

/// One row per fact: the subject it is grouped under, and the line. Servers break and indent what they print in their
/// own ways, and give owners new privileges: blanks are made one, and owners' own privileges are left out.
const FACTS: &str = include_str!("facts.sql");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_snapshot_is_one_statement_told_once() {
        let all = EXPECTED.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
        assert_eq!(all.clone().count(), lines(EXPECTED).len());
        assert!(all.clone().count() > 100);
        for line in all {
            assert!(line.ends_with(';'), "{line}");
        }
    }

    #[test]
    fn every_function_of_the_files_has_its_text() {
        let made: usize = Source::embedded()
            .functions
            .iter()
            .map(|file| file.sql.matches("create or replace function jobforge.").count())
            .sum();
        assert_eq!(texts().len(), made);
        assert!(texts()["clock"].contains("clock_timestamp()"));
    }

    #[test]
    fn facts_know_what_they_are_about() {
        let parts = [
            ("create unique index a on b;", Part::Index),
            ("create policy a on b;", Part::Security),
            ("grant select on a to b;", Part::Security),
            ("alter table a enable row level security, force row level security;", Part::Security),
            ("alter function f() owner to o;", Part::Function),
            ("alter table a add column b text;", Part::Table),
        ];
        for (line, part) in parts {
            assert_eq!(Fact::of(line).part, part, "{line}");
        }
    }
}
