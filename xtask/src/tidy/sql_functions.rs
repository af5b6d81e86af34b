//! How a SQL function is written: explained, defined once, safe from a caller's search path, one spelling.

use std::collections::BTreeMap;

use super::Violation;
use crate::source::{Tree, leading_word, line_of, sql};

const RULE: &str = "sql-function";
const SAFE_PATH: &str = "set search_path = pg_catalog, pg_temp";

/// Enough words that upper-case SQL cannot slip through, none that is a likely identifier.
const KEYWORDS: [&str; 32] = [
    "SELECT",
    "FROM",
    "WHERE",
    "INSERT",
    "INTO",
    "UPDATE",
    "DELETE",
    "SET",
    "VALUES",
    "RETURNING",
    "CREATE",
    "REPLACE",
    "FUNCTION",
    "RETURNS",
    "LANGUAGE",
    "BEGIN",
    "END",
    "DECLARE",
    "IF",
    "THEN",
    "ELSE",
    "LOOP",
    "RETURN",
    "RAISE",
    "JOIN",
    "AND",
    "OR",
    "NOT",
    "NULL",
    "AS",
    "ORDER",
    "GRANT",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut defined: BTreeMap<String, String> = BTreeMap::new();
    let mut numbered: BTreeMap<&str, &str> = BTreeMap::new();
    for (path, text) in tree.under("sql/functions/").filter(|(path, _)| path.ends_with(".sql")) {
        let number = number(path);
        if let Some(other) = numbered.insert(number, path) {
            found.push(Violation::in_file(
                RULE,
                path,
                format!("the number {number} is also that of {other}"),
            ));
        }
        let statements = sql::statements(text);
        let commented: Vec<_> = statements.iter().filter_map(sql::Statement::comments_on).collect();
        for statement in &statements {
            let Some(name) = statement.defines() else { continue };
            let mut complain =
                |message: String| found.push(Violation::at(RULE, (path, statement.line), message));
            if !commented.contains(&name) {
                complain(format!("{name} has no `comment on function jobforge.{name}` in this file"));
            }
            if statement.is_definer() && !statement.has(SAFE_PATH) {
                complain(format!("{name} is security definer without `{SAFE_PATH}`"));
            }
            if let Some(first) = defined.insert(name.to_owned(), path.to_owned()) {
                complain(format!("{name} is defined twice (also in {first}): one signature per name"));
            }
        }
        found.extend(upper_case_keyword(path, text));
    }
    found
}

/// The first keyword in capitals; one is enough to send the author through the file.
fn upper_case_keyword(path: &str, text: &str) -> Option<Violation> {
    let code = sql::code(text);
    let (at, word) = words(&code).find(|(_, word)| KEYWORDS.contains(word))?;
    Some(Violation::at(
        RULE,
        (path, line_of(text, at)),
        format!("keyword {word} in capitals: SQL is lower case here"),
    ))
}

fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].find(|character: char| character.is_alphanumeric() || character == '_')?;
        let word = leading_word(&text[at..]);
        let start = at;
        at += word.len();
        Some((start, word))
    })
}

/// What a file's name begins with: the place at which it is applied.
fn number(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('_').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    const GOOD: &str = "create or replace function jobforge.f() returns int language sql security definer\n\
        set search_path = pg_catalog, pg_temp as $$ select 1 $$; -- NOT in capitals\n\
        comment on function jobforge.f() is 'AND why';\n";

    #[test]
    fn a_function_written_as_agreed_passes() {
        assert!(complaints(check, &[("sql/functions/10_f.sql", GOOD)]).is_empty());
    }

    #[test]
    fn a_missing_comment_fails() {
        let text = GOOD.replace("comment on function jobforge.f", "comment on function jobforge.g");
        assert_eq!(complaints(check, &[("sql/functions/10_f.sql", &text)]).len(), 1);
    }

    #[test]
    fn a_definer_without_search_path_fails() {
        let text = GOOD.replace(SAFE_PATH, "set search_path = public");
        assert!(
            complaints(check, &[("sql/functions/10_f.sql", &text)])[0].contains("without `set search_path")
        );
    }

    #[test]
    fn a_name_defined_twice_fails() {
        let files = [("sql/functions/10_f.sql", GOOD), ("sql/functions/20_f.sql", GOOD)];
        assert!(complaints(check, &files)[0].contains("also in sql/functions/10_f.sql"));
    }

    #[test]
    fn a_number_used_twice_fails() {
        let other = GOOD.replace("jobforge.f", "jobforge.g");
        let files = [("sql/functions/10_f.sql", GOOD), ("sql/functions/10_g.sql", &*other)];
        assert_eq!(
            complaints(check, &files),
            ["sql/functions/10_g.sql: [sql-function] the number 10 is also that of sql/functions/10_f.sql"]
        );
    }

    #[test]
    fn capitals_fail() {
        let text = GOOD.replace("select 1", "\nSELECT 1");
        assert_eq!(
            complaints(check, &[("sql/functions/10_f.sql", &text)]),
            ["sql/functions/10_f.sql:3: [sql-function] keyword SELECT in capitals: SQL is lower case here"]
        );
    }
}
