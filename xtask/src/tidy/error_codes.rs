//! An error code is a promise to users: raised in SQL, it is explained on a page, listed in the SQL reference
//! and known to the Rust mapping; given by the server itself, it is explained on a page, too; and no page explains
//! what nothing raises.

use std::collections::BTreeMap;

use super::Violation;
use crate::source::{Tree, line_of};

const RULE: &str = "error-code";
const FUNCTIONS: &str = "sql/functions/";
const PAGES: &str = "docs/errors/";
const TABLE: &str = "sql/README.md";
const MAPPING: &str = "crates/jobforge-core/src/error.rs";
const SERVER: &str = "crates/jobforge-server/src/problem.rs";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let raised = raised_codes(tree);
    let pages: Vec<&str> = tree.under(PAGES).filter_map(|(path, _)| page_code(path)).collect();
    let mapped: Option<Vec<&str>> = tree.get(MAPPING).map(|text| codes(text).map(|(_, code)| code).collect());
    let listed: Option<Vec<&str>> = tree.get(TABLE).map(table_codes);
    let own: Vec<(usize, &str)> = tree.get(SERVER).map(|text| codes(text).collect()).unwrap_or_default();
    let mut found = Vec::new();
    for (code, (path, line)) in &raised {
        let mut complain = |message: String| found.push(Violation::at(RULE, (path, *line), message));
        if !pages.is_empty() && !pages.contains(code) {
            complain(format!("{code} has no page {PAGES}{code}.md"));
        }
        if listed.as_ref().is_some_and(|listed| !listed.contains(code)) {
            complain(format!("{code} has no row in a table of {TABLE}"));
        }
        if mapped.as_ref().is_some_and(|mapped| !mapped.contains(code)) {
            complain(format!("{code} is unknown to {MAPPING}"));
        }
    }
    let mut told = Vec::new();
    for (at, code) in &own {
        if !pages.contains(code) && !told.contains(code) {
            told.push(*code);
            let line = line_of(tree.get(SERVER).unwrap_or_default(), *at);
            found.push(Violation::at(RULE, (SERVER, line), format!("{code} has no page {PAGES}{code}.md")));
        }
    }
    // A code may also be raised by Rust alone, and is then known to the mapping or to the server.
    let known = |code: &str| {
        raised.contains_key(code)
            || mapped.as_ref().is_some_and(|mapped| mapped.contains(&code))
            || own.iter().any(|(_, given)| *given == code)
    };
    let orphans = pages.iter().filter(|code| (!raised.is_empty() || mapped.is_some()) && !known(code));
    found.extend(orphans.map(|code| {
        Violation::in_file(RULE, &format!("{PAGES}{code}.md"), format!("nothing raises {code}"))
    }));
    found
}

fn raised_codes(tree: &Tree) -> BTreeMap<&str, (&str, usize)> {
    let mut raised = BTreeMap::new();
    for (path, text) in tree.under(FUNCTIONS) {
        for (at, code) in codes(text) {
            raised.entry(code).or_insert_with(|| (path, line_of(text, at)));
        }
    }
    raised
}

/// Every `JF` with exactly three digits, and where it stands.
fn codes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("JF").filter_map(|(at, _)| {
        let digits = text[at + 2..].bytes().take_while(u8::is_ascii_digit).count();
        (digits == 3).then(|| (at, &text[at..at + 5]))
    })
}

fn page_code(path: &str) -> Option<&str> {
    let name = path.strip_prefix(PAGES)?.strip_suffix(".md")?;
    codes(name).next().map(|(_, code)| code).filter(|code| *code == name)
}

fn table_codes(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.trim_start().starts_with('|'));
    rows.flat_map(codes).map(|(_, code)| code).collect()
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    const RAISE: (&str, &str) = ("sql/functions/a.sql", "\nraise exception using errcode = 'JF004';");

    #[test]
    fn a_documented_code_passes() {
        let files = [
            RAISE,
            ("docs/errors/JF004.md", ""),
            ("docs/errors/README.md", ""),
            (TABLE, "| `JF004` |"),
            (MAPPING, "\"JF004\""),
        ];
        assert!(complaints(check, &files).is_empty());
    }

    #[test]
    fn a_code_without_page_row_or_mapping_fails_thrice() {
        let files =
            [RAISE, ("docs/errors/JF001.md", ""), (TABLE, "JF004 is mentioned"), (MAPPING, "\"JF001\"")];
        assert_eq!(
            complaints(check, &files),
            [
                "sql/functions/a.sql:2: [error-code] JF004 has no page docs/errors/JF004.md",
                "sql/functions/a.sql:2: [error-code] JF004 has no row in a table of sql/README.md",
                "sql/functions/a.sql:2: [error-code] JF004 is unknown to crates/jobforge-core/src/error.rs",
            ]
        );
    }

    #[test]
    fn a_code_of_the_server_needs_its_page() {
        let given = (SERVER, "\nerror => \"JF101\",\nother => \"JF102\", // JF102");
        let files = [RAISE, ("docs/errors/JF004.md", ""), ("docs/errors/JF101.md", ""), given];
        assert_eq!(
            complaints(check, &files),
            ["crates/jobforge-server/src/problem.rs:3: [error-code] JF102 has no page docs/errors/JF102.md"]
        );
    }

    #[test]
    fn a_page_without_code_fails() {
        let files = [RAISE, ("docs/errors/JF004.md", ""), ("docs/errors/JF099.md", "")];
        assert_eq!(complaints(check, &files), ["docs/errors/JF099.md: [error-code] nothing raises JF099"]);
    }
}
