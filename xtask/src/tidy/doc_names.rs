//! The documents a newcomer reads first name only what exists: paths in code spans and links, and tests
//! written as `test: name`.

use super::{Violation, is_test_file};
use crate::source::{Tree, words_at};

const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];

/// A span that starts with one of these means a path of this repository.
const TOP_DIRS: [&str; 16] = [
    ".cargo/",
    ".ci/",
    ".config/",
    "acceptance/",
    "bench/",
    "chaos/",
    "conformance/",
    "crates/",
    "deploy/",
    "docs/",
    "examples/",
    "scripts/",
    "sdks/",
    "sql/",
    "ui/",
    "xtask/",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let documents = DOCUMENTS.iter().filter_map(|path| Some((*path, tree.get(path)?)));
    documents
        .flat_map(|(path, text)| names(text).into_iter().map(move |(line, name)| (path, line, name)))
        .filter_map(|(path, line, name)| {
            if let Some(test) = name.strip_prefix("test: ") {
                let message = format!("no test is called {test}");
                return (!has_test(tree, test.trim()))
                    .then(|| Violation::at("doc-test", (path, line), message));
            }
            let wanted = literal_part(name)?;
            (!tree.has_path(wanted))
                .then(|| Violation::at("doc-path", (path, line), format!("{name} does not exist")))
        })
        .collect()
}

/// Code spans and link targets with their lines; fenced blocks are pictures and commands, not names.
fn names(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (index + 1, span.trim())));
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            found.extend(targets.map(|target| (index + 1, target.trim())));
        }
    }
    found
}

/// The part of a path that must exist: all of it, or the directory before the first component that stands for
/// many (`*`, `{a,b}`, `<name>`, `…`, `NNN`). `None` for what is no path of this repository.
fn literal_part(name: &str) -> Option<&str> {
    if name.contains(char::is_whitespace) || !TOP_DIRS.iter().any(|dir| name.starts_with(dir)) {
        return None;
    }
    let name = name.split("::").next().unwrap_or(name);
    let stands_for_many =
        |part: &str| part.contains(['*', '{', '<', '…']) || part.to_ascii_lowercase().contains("nnn");
    let mut end = 0;
    for part in name.split_inclusive('/') {
        if stands_for_many(part) {
            break;
        }
        end += part.len();
    }
    Some(&name[..end])
}

/// A test is a function in a Rust or Python file, or a story's file in `acceptance/`.
fn has_test(tree: &Tree, name: &str) -> bool {
    let file_name = name.rsplit("::").next().unwrap_or(name);
    tree.iter().any(|(path, text)| {
        let is_story = path.starts_with("acceptance/")
            && path.rsplit('/').next().is_some_and(|file| stem(file) == file_name);
        let keyword = if path.ends_with(".rs") { "fn " } else { "def " };
        let may_hold_tests = path.ends_with(".rs") || (path.ends_with(".py") && is_test_file(path));
        is_story || (may_hold_tests && words_at(text, file_name).any(|at| text[..at].ends_with(keyword)))
    })
}

fn stem(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    const CODE: (&str, &str) = ("crates/core/tests/claim.rs", "fn two_workers_never_share() {}");

    #[test]
    fn what_exists_passes() {
        let text = "`crates/core/`, `crates/core/tests/*.rs`, [it](crates/core/tests/claim.rs#L1), `make test`\n\
            `test: two_workers_never_share`\n```\n`crates/gone`\n```\n`crates/core/tests/NNN-x.rs` `a/b`";
        assert!(complaints(check, &[("ARCHITECTURE.md", text), CODE]).is_empty());
    }

    #[test]
    fn a_path_that_is_gone_fails() {
        assert_eq!(
            complaints(check, &[("README.md", "\nsee `crates/core/src/gone.rs`"), CODE]),
            ["README.md:2: [doc-path] crates/core/src/gone.rs does not exist"]
        );
        assert_eq!(complaints(check, &[("README.md", "`crates/gone/*.rs` [x](sql/gone.md)"), CODE]).len(), 2);
    }

    #[test]
    fn a_test_that_is_gone_fails() {
        let text = "| claim | `test: two_workers_never` |";
        assert_eq!(
            complaints(check, &[("CONTRIBUTING.md", text), CODE]),
            ["CONTRIBUTING.md:1: [doc-test] no test is called two_workers_never"]
        );
    }
}
