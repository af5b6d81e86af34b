//! House rules that no other tool checks. Each rule is a function over the repository's files that returns
//! every violation it finds; all are listed before the run fails, so that one run shows all the work.
//!
//! A rule about files that are not there passes: it starts to bind with the first of them.

mod bindings;
mod config_keys;
mod doc_names;
mod egress;
mod error_codes;
mod frozen;
mod leftovers;
mod length;
mod sql_functions;
mod sql_text;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::source::Tree;

type Rule = fn(&Tree) -> Vec<Violation>;

const RULES: [Rule; 10] = [
    length::check,
    sql_functions::check,
    bindings::check,
    error_codes::check,
    config_keys::check,
    doc_names::check,
    leftovers::check,
    sql_text::check,
    egress::check,
    frozen::check,
];

/// Checks the repository and prints what is wrong with it.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::load(root)?;
    let violations: Vec<Violation> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    for violation in &violations {
        eprintln!("{violation}");
    }
    if violations.is_empty() {
        println!("tidy: {} files, {} rules, nothing to complain about", tree.iter().count(), RULES.len());
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} to mend", violations.len());
    Ok(ExitCode::FAILURE)
}

/// One thing that is against a rule, told in one line.
struct Violation {
    path: String,
    line: Option<usize>,
    rule: &'static str,
    message: String,
}

impl Violation {
    fn in_file(rule: &'static str, path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, rule, message: message.into() }
    }

    fn at(rule: &'static str, (path, line): (&str, usize), message: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::in_file(rule, path, message) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": [{}] {}", self.rule, self.message)
    }
}

/// Files that hold tests and nothing else.
fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("acceptance/") || path.ends_with("/tests.rs")
}

/// What the rules' own tests assert: the lines that a repository of a few files earns.
#[cfg(test)]
fn complaints(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Tree::of(files)).iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_repository_breaks_no_rule() {
        assert_eq!(RULES.iter().flat_map(|rule| rule(&Tree::default())).count(), 0);
    }

    #[test]
    fn a_violation_names_file_line_and_rule() {
        let violation = Violation::at("length", ("sql/a.sql", 3), "too long");
        assert_eq!(violation.to_string(), "sql/a.sql:3: [length] too long");
    }
}
