//! The schema's snapshot, `sql/schema.snapshot.sql`: written from a database made by the migrations and functions as
//! they are, so that a change of the schema shows in review, and so that the executable can tell drift.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use jobforge_core::migrate;
use jobforge_testkit::TestDb;

const FILE: &str = "sql/schema.snapshot.sql";
/// Of a long difference the beginning tells enough.
const MOST_LINES: usize = 40;

/// Writes the snapshot.
pub(crate) fn write(root: &Path) -> Result<ExitCode> {
    let text = take()?;
    fs::write(root.join(FILE), &text).with_context(|| format!("cannot write {FILE}"))?;
    println!("snapshot: {} lines in {FILE}", text.lines().count());
    Ok(ExitCode::SUCCESS)
}

/// Fails with the difference when the snapshot is stale.
pub(crate) fn check(root: &Path) -> Result<ExitCode> {
    let kept = fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    let difference = difference(&kept, &take()?);
    if difference.is_empty() {
        println!("snapshot: {FILE} is up to date");
        return Ok(ExitCode::SUCCESS);
    }
    for line in difference.iter().take(MOST_LINES) {
        eprintln!("{line}");
    }
    if difference.len() > MOST_LINES {
        eprintln!("… and {} lines more", difference.len() - MOST_LINES);
    }
    eprintln!("snapshot: {FILE} is stale: cargo xtask snapshot, and commit it with what changed the schema");
    Ok(ExitCode::FAILURE)
}

/// The snapshot of a new database.
fn take() -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let db = TestDb::new().await;
        Ok(migrate::snapshot(&db.connect_super().await).await?)
    })
}

/// The lines that only one of them has, in the order of the text they come from.
fn difference(kept: &str, made: &str) -> Vec<String> {
    let gone = kept.lines().filter(|line| !made.lines().any(|other| other == *line));
    let new = made.lines().filter(|line| !kept.lines().any(|other| other == *line));
    let mut lines: Vec<String> =
        gone.map(|line| format!("- {line}")).chain(new.map(|line| format!("+ {line}"))).collect();
    if lines.is_empty() && kept != made {
        lines.push("! the same lines in another order".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_what_is_gone_and_what_is_new() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), ["- b", "+ c"]);
        assert_eq!(difference("a\nb\n", "b\na\n"), ["! the same lines in another order"]);
        assert!(difference("a\n", "a\n").is_empty());
    }
}
