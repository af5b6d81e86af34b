//! Nothing half-done stays behind: debugging aids, holes, switched-off tests, notes to self without a home,
//! and files whose name says nothing.

use super::Violation;
use crate::source::{Tree, line_of, rust::RustSource, words_at};

const RULE: &str = "leftover";
const MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];
const NOTES: [&str; 2] = ["TODO", "FIXME"];
const EMPTY_NAMES: [&str; 7] = ["common", "helper", "helpers", "misc", "util", "utils", "stuff"];
const NOTED_IN: [&str; 7] = [".sql", ".py", ".ts", ".tsx", ".sh", ".toml", "Makefile"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        if path.ends_with(".rs") {
            found.extend(rust_leftovers(path, text));
        } else if NOTED_IN.iter().any(|end| path.ends_with(end)) || text.starts_with("#!") {
            found.extend(
                text.lines()
                    .enumerate()
                    .filter(|(_, line)| has_homeless_note(line))
                    .map(|(index, _)| note(path, index + 1)),
            );
        }
        found.extend(empty_name(path));
    }
    found
}

fn rust_leftovers(path: &str, text: &str) -> Vec<Violation> {
    let source = RustSource::new(text);
    let code = source.code();
    let mut found = Vec::new();
    for name in MACROS {
        let calls = words_at(&code, name).filter(|at| code[at + name.len()..].starts_with('!'));
        found.extend(calls.map(|at| {
            Violation::at(RULE, (path, line_of(text, at)), format!("{name}! does not belong in the tree"))
        }));
    }
    // A test that another one runs in a process of its own is that test's body, not a switched-off one.
    let ignored = code.match_indices("#[ignore").filter(|(at, _)| {
        let runner =
            text[*at..].strip_prefix("#[ignore = \"is run by ").and_then(|rest| rest.split_once('"'));
        !runner.is_some_and(|(runner, _)| text.contains(&format!("fn {runner}(")))
    });
    found.extend(
        ignored.map(|(at, _)| {
            Violation::at(RULE, (path, line_of(text, at)), "a switched-off test guards nothing")
        }),
    );
    found.extend(
        source.comments().filter(|(_, comment)| has_homeless_note(comment)).map(|(line, _)| note(path, line)),
    );
    found
}

/// A note has a home when it names a row of the feature table: `(row B3)`.
fn has_homeless_note(text: &str) -> bool {
    NOTES.iter().any(|note| {
        words_at(text, note).any(|at| {
            let row = text[at + note.len()..].strip_prefix("(row ").and_then(|rest| rest.split_once(')'));
            !row.is_some_and(|(row, _)| {
                row.len() >= 2 && row.bytes().all(|byte| byte.is_ascii_alphanumeric())
            })
        })
    })
}

fn note(path: &str, line: usize) -> Violation {
    Violation::at(RULE, (path, line), "a note to self names its row, `(row X0)`, or goes")
}

fn empty_name(path: &str) -> Option<Violation> {
    let part = path.split('/').find(|part| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part)))?;
    Some(Violation::in_file(RULE, path, format!("{part} says nothing: name it after what it holds")))
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    #[test]
    fn leftover_macros_fail_only_in_code() {
        let text = "// dbg!(x)\nlet s = \"todo!()\";\ndbg!(s);\n";
        assert_eq!(
            complaints(check, &[("a.rs", text)]),
            ["a.rs:3: [leftover] dbg! does not belong in the tree"]
        );
        assert_eq!(
            complaints(check, &[("a.rs", "fn f() { todo!() }\nfn g() { unimplemented!() }")]).len(),
            2
        );
    }

    #[test]
    fn a_switched_off_test_fails() {
        assert_eq!(complaints(check, &[("a.rs", "#[ignore = \"slow\"]\nfn t() {}")]).len(), 1);
        let childs_body = "#[ignore = \"is run by whole\"]\nfn t() {}\n";
        assert_eq!(complaints(check, &[("a.rs", childs_body)]).len(), 1);
        assert_eq!(complaints(check, &[("a.rs", &format!("{childs_body}fn whole() {{}}"))]).len(), 0);
    }

    #[test]
    fn a_note_needs_a_row() {
        assert!(complaints(check, &[("a.rs", "// TODO(row B3): later"), ("a.md", "TODO")]).is_empty());
        assert_eq!(
            complaints(check, &[("a.rs", "// TODO later"), ("sql/a.sql", "\n-- TODO(me) x")]).len(),
            2
        );
    }

    #[test]
    fn a_name_that_says_nothing_fails() {
        let files = [
            ("crates/x/src/utils.rs", ""),
            ("crates/x/tests/common/mod.rs", ""),
            ("crates/x/src/uncommon.rs", ""),
        ];
        assert_eq!(complaints(check, &files).len(), 2);
    }
}
