//! Short and flat: what does not fit on a few screens is split before it grows roots.

use super::{Violation, is_test_file};
use crate::source::{Tree, rust::RustSource, sql};

const RULE: &str = "length";
const MAX_FILE: usize = 500;
const MAX_TEST_FILE: usize = 800;
const MAX_RUST_FUNCTION: usize = 70;
const MAX_SQL_FUNCTION: usize = 150;

/// What a newcomer reads to know a job's life, together (ARCHITECTURE.md tells the way).
const FIRST_READING: [&str; 7] = [
    "ARCHITECTURE.md",
    "sql/functions/10_enqueue.sql",
    "sql/functions/20_claim.sql",
    "sql/functions/30_heartbeat.sql",
    "sql/functions/40_complete.sql",
    "sql/functions/50_fail.sql",
    "crates/jobforge-worker/src/executor.rs",
];
const MAX_FIRST_READING: usize = 1000;

const JUDGED: [&str; 5] = [".rs", ".sql", ".py", ".ts", ".tsx"];

/// Written by a program, and as long as it must be.
const GENERATED: [&str; 3] = ["sql/schema.snapshot.sql", "/snapshots/", "/generated/"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| is_judged(path)) {
        let limit = if is_test_file(path) { MAX_TEST_FILE } else { MAX_FILE };
        let lines = text.lines().count();
        if lines > limit {
            found.push(Violation::in_file(
                RULE,
                path,
                format!("{lines} lines, at most {limit}: split the file"),
            ));
        }
        if path.ends_with(".rs") {
            found.extend(rust_functions(path, text));
        } else if path.ends_with(".sql") {
            found.extend(sql_functions(path, text));
        }
    }
    found.extend(first_reading(tree));
    found
}

/// Short, and whole: a page that was renamed would not be counted, and nobody would be led to it.
fn first_reading(tree: &Tree) -> Vec<Violation> {
    let (there, gone): (Vec<&str>, Vec<&str>) =
        FIRST_READING.into_iter().partition(|page| tree.get(page).is_some());
    if there.is_empty() {
        return Vec::new();
    }
    let gone = gone.into_iter().map(|page| {
        Violation::in_file(
            RULE,
            page,
            "a newcomer's way leads here, and there is no such file (FIRST_READING)",
        )
    });
    let mut found: Vec<Violation> = gone.collect();
    let lines: usize = there.iter().filter_map(|page| tree.get(page)).map(|text| text.lines().count()).sum();
    if lines > MAX_FIRST_READING {
        let message =
            format!("a newcomer's way is {lines} lines, at most {MAX_FIRST_READING}: {FIRST_READING:?}");
        found.push(Violation::in_file(RULE, FIRST_READING[0], message));
    }
    found
}

fn is_judged(path: &str) -> bool {
    JUDGED.iter().any(|end| path.ends_with(end)) && !GENERATED.iter().any(|part| path.contains(part))
}

/// clippy says the same of what it compiles; this also sees `bench/` and code for other platforms.
fn rust_functions(path: &str, text: &str) -> Vec<Violation> {
    let functions = RustSource::new(text).functions();
    let long = functions.into_iter().filter(|function| {
        function.body_lines > MAX_RUST_FUNCTION
            && !function.attributes.contains("expect(clippy::too_many_lines")
    });
    long.map(|function| {
        let message =
            format!("fn {} has {} lines, at most {MAX_RUST_FUNCTION}", function.name, function.body_lines);
        Violation::at(RULE, (path, function.line), message)
    })
    .collect()
}

fn sql_functions(path: &str, text: &str) -> Vec<Violation> {
    let statements = sql::statements(text);
    let long = statements.iter().filter(|statement| statement.body_lines > MAX_SQL_FUNCTION);
    long.filter_map(|statement| {
        let name = statement.defines()?;
        let message =
            format!("function {name} has {} lines, at most {MAX_SQL_FUNCTION}", statement.body_lines);
        Some(Violation::at(RULE, (path, statement.line), message))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    #[test]
    fn a_long_file_fails_and_a_test_file_may_be_longer() {
        let long = "\n".repeat(501);
        let files = [
            ("a.rs", &*long),
            ("crates/x/tests/a.rs", &*long),
            ("sql/schema.snapshot.sql", &*long),
            ("a.md", &*long),
        ];
        assert_eq!(complaints(check, &files), ["a.rs: [length] 501 lines, at most 500: split the file"]);
        let longer = "\n".repeat(801);
        assert_eq!(complaints(check, &[("crates/x/tests/a.rs", &longer)]).len(), 1);
    }

    #[test]
    fn a_newcomers_way_stays_short_whichever_page_grows() {
        let half = "\n".repeat(500);
        let mut files = FIRST_READING.map(|page| (page, ""));
        (files[0].1, files[1].1) = (&half, &half);
        assert!(complaints(check, &files).is_empty());
        files[6].1 = "one more\n";
        let told = complaints(check, &files);
        assert!(told.len() == 1 && told[0].contains("a newcomer's way is 1001 lines"), "{told:?}");
    }

    #[test]
    fn a_page_on_a_newcomers_way_that_is_gone_or_renamed_is_missed() {
        for gone in 0..FIRST_READING.len() {
            let mut files = FIRST_READING.map(|page| (page, ""));
            files[gone].0 = "sql/functions/elsewhere.sql";
            let told = complaints(check, &files);
            let missed = format!("{}: [length] a newcomer's way leads here", FIRST_READING[gone]);
            assert!(told.len() == 1 && told[0].starts_with(&missed), "{told:?}");
        }
    }

    #[test]
    fn a_long_rust_function_fails_unless_it_says_why() {
        let function = |attribute: &str| format!("{attribute}fn long() {{\n{}}}\n", "call();\n".repeat(71));
        assert_eq!(
            complaints(check, &[("a.rs", &function(""))]),
            ["a.rs:1: [length] fn long has 71 lines, at most 70"]
        );
        let excused = function("#[expect(clippy::too_many_lines, reason = \"one table\")]\n");
        assert!(complaints(check, &[("a.rs", &excused)]).is_empty());
    }

    #[test]
    fn a_long_sql_function_fails() {
        let text = format!(
            "create or replace function jobforge.f() as $$\n{}$$ language sql;",
            "select 1;\n".repeat(151)
        );
        assert_eq!(
            complaints(check, &[("sql/functions/a.sql", &text)]),
            ["sql/functions/a.sql:1: [length] function f has 151 lines, at most 150"]
        );
    }
}
