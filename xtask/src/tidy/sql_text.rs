//! No process touches a table except through a function: SQL in Rust stands where functions are called,
//! migrations applied or a database inspected, and nowhere else.

use super::{Violation, is_test_file};
use crate::source::{Tree, rust::RustSource};

const RULE: &str = "sql-text";

/// Where SQL is at home.
const ALLOWED: [&str; 4] = [
    "crates/jobforge-core/src/rpc",
    "crates/jobforge-core/src/migrate",
    "crates/jobforge-core/src/listen",
    "crates/jobforge-testkit/",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.under("crates/").filter(|(path, _)| is_judged(path)) {
        let source = RustSource::new(text);
        let end = source.tests_from_line().unwrap_or(usize::MAX);
        let statements = source.literals().filter(|(line, literal)| *line < end && is_statement(literal));
        found.extend(
            statements.map(|(line, _)| Violation::at(RULE, (path, line), "SQL text outside the rpc module")),
        );
    }
    found
}

/// `doctor` looks at a database that may be too broken for functions to be called.
fn is_judged(path: &str) -> bool {
    let allowed = ALLOWED.iter().any(|home| path.starts_with(home)) || path.contains("/doctor");
    path.ends_with(".rs") && path.contains("/src/") && !allowed && !is_test_file(path)
}

/// Judged by more than the first word, for a message to people may begin with one of these verbs too.
fn is_statement(literal: &str) -> bool {
    let text = literal.trim_start_matches(['b', 'r', 'c', '#', '"', '\\']).trim_start().to_ascii_lowercase();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    match words.as_slice() {
        ["select", _] | ["insert", "into"] | ["delete", "from"] => true,
        ["update", _] => text.contains(" set "),
        ["with", _] => text.contains(" as ("),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    const WORKER: &str = "crates/jobforge-worker/src/runner.rs";

    #[test]
    fn sql_in_a_worker_fails() {
        let statements = [
            "\"select 1\"",
            "\"  INSERT INTO t\"",
            "r#\"\n  delete from t\"#",
            "\"update t set a = 1\"",
            "\"\\\n  with a as (select 1) table a\"",
        ];
        for statement in statements {
            let text = format!("\nlet s = {statement};");
            let expected = format!("{WORKER}:2: [sql-text] SQL text outside the rpc module");
            assert_eq!(complaints(check, &[(WORKER, &text)]), [expected], "{statement}");
        }
    }

    #[test]
    fn sql_is_at_home_in_rpc_tests_and_doctor() {
        let text = "\"select 1\"";
        let files = [
            ("crates/jobforge-core/src/rpc/claim.rs", text),
            ("crates/jobforge-core/src/migrate.rs", text),
            ("crates/jobforge-testkit/src/lib.rs", text),
            ("crates/jobforge-worker/tests/runner.rs", text),
            ("crates/jobforge/src/commands/doctor.rs", text),
            (WORKER, "// \"select 1\"\nlet s = \"update failed\";\n#[cfg(test)]\nmod tests { \"select 1\" }"),
        ];
        assert!(complaints(check, &files).is_empty());
    }
}
