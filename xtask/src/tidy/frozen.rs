//! A migration that databases were made with never changes: those databases would refuse the edited one. Its hash
//! stands in a list; a new one stands behind all that are listed, and joins them when it is released.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::Violation;
use crate::source::Tree;

const RULE: &str = "frozen";
const LIST: &str = "sql/frozen.sha256";
const MIGRATIONS: &str = "sql/migrations";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(list) = tree.get(LIST) else { return Vec::new() };
    let listed: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once("  ")).collect();
    let last = listed.iter().map(|(_, name)| *name).max().unwrap_or_default();
    let changed = listed.iter().filter_map(|(hash, name)| {
        let message = match tree.get(&format!("{MIGRATIONS}/{name}")) {
            Some(text) if hex(text) == *hash => return None,
            Some(_) => "is frozen and was changed: write a new migration",
            None => "is frozen and gone",
        };
        Some(Violation::in_file(RULE, &format!("{MIGRATIONS}/{name}"), message))
    });
    let unlisted = tree.under(MIGRATIONS).filter_map(|(path, _)| {
        let name = path.strip_prefix(MIGRATIONS)?.trim_start_matches('/');
        let is_listed = listed.iter().any(|(_, known)| *known == name);
        (!is_listed && name < last)
            .then(|| Violation::in_file(RULE, path, format!("is new but numbered before {last}")))
    });
    changed.chain(unlisted).collect()
}

fn hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    fn list() -> String {
        format!("{}  0001_a.sql\n{}  0002_b.sql\n", hex("one"), hex("two"))
    }

    #[test]
    fn what_is_as_it_was_and_what_is_new_pass() {
        let files = [
            (LIST, list()),
            ("sql/migrations/0001_a.sql", "one".to_owned()),
            ("sql/migrations/0002_b.sql", "two".to_owned()),
            ("sql/migrations/0003_c.sql", "three".to_owned()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert!(complaints(check, &files).is_empty());
    }

    #[test]
    fn what_was_changed_dropped_or_put_between_fails() {
        let list = list();
        let files = [
            (LIST, list.as_str()),
            ("sql/migrations/0001_a.sql", "other"),
            ("sql/migrations/0001_z.sql", "between"),
        ];
        assert_eq!(
            complaints(check, &files),
            [
                "sql/migrations/0001_a.sql: [frozen] is frozen and was changed: write a new migration",
                "sql/migrations/0002_b.sql: [frozen] is frozen and gone",
                "sql/migrations/0001_z.sql: [frozen] is new but numbered before 0002_b.sql",
            ]
        );
    }
}
