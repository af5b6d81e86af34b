//! SQL text cut into statements, with comments and strings blanked and the bodies of functions set apart.

use super::leading_word;

/// One statement of a file.
pub(crate) struct Statement {
    /// Line of its first word.
    pub(crate) line: usize,
    /// The words outside dollar quotes, with single spaces, comments and strings gone. Case is kept.
    pub(crate) head: String,
    /// The lines inside dollar quotes.
    pub(crate) body_lines: usize,
}

impl Statement {
    /// The name of the function or procedure that this statement creates, without its schema.
    pub(crate) fn defines(&self) -> Option<&str> {
        const FORMS: [&str; 4] = [
            "create or replace function",
            "create function",
            "create or replace procedure",
            "create procedure",
        ];
        FORMS.iter().find_map(|form| self.object_after(form))
    }

    /// The name of the function or procedure that this statement comments on.
    pub(crate) fn comments_on(&self) -> Option<&str> {
        ["comment on function", "comment on procedure"].iter().find_map(|form| self.object_after(form))
    }

    pub(crate) fn is_definer(&self) -> bool {
        self.has("security definer")
    }

    /// Whether a phrase stands in the head, in any case.
    pub(crate) fn has(&self, phrase: &str) -> bool {
        self.head.to_ascii_lowercase().contains(phrase)
    }

    /// The functions and the roles of a `grant execute on function … to …`.
    pub(crate) fn grants_execute(&self) -> Option<(Vec<&str>, Vec<&str>)> {
        let rest = self.after("grant execute on function")?;
        let (functions, roles) = rest.split_once(" to ")?;
        let roles =
            roles.split([',', ' ']).map(|role| role.trim_end_matches(';')).filter(|role| !role.is_empty());
        Some((outermost_names(functions), roles.collect()))
    }

    fn object_after(&self, form: &str) -> Option<&str> {
        let name = leading_word(self.after(form)?.strip_prefix("jobforge.")?);
        (!name.is_empty()).then_some(name)
    }

    fn after(&self, form: &str) -> Option<&str> {
        let start = self.head.get(..form.len())?;
        start.eq_ignore_ascii_case(form).then(|| self.head[form.len()..].trim_start())
    }
}

/// The statements of a file, in order.
pub(crate) fn statements(text: &str) -> Vec<Statement> {
    let code = code(text);
    let mut found = Vec::new();
    let mut head = String::new();
    let mut start_line = None;
    let mut body_lines = 0;
    let mut rest = code.as_str();
    let mut line = 1;
    while let Some(character) = rest.chars().next() {
        if !character.is_whitespace() {
            start_line.get_or_insert(line);
        }
        let mut taken = character.len_utf8();
        if let Some(tag) = dollar_tag(rest) {
            let inner = &rest[tag.len()..];
            let length = inner.find(tag).unwrap_or(inner.len());
            body_lines += inner[..length].trim().lines().count();
            taken = (tag.len() + length + tag.len()).min(rest.len());
            head.push(' ');
        } else if character == ';' {
            found.push(Statement {
                line: start_line.take().unwrap_or(line),
                head: one_spaced(&head),
                body_lines,
            });
            head.clear();
            body_lines = 0;
        } else {
            head.push(character);
        }
        line += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    found
}

/// The text with comments and strings blanked, inside and outside function bodies; offsets stay as they are.
pub(crate) fn code(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match &text.as_bytes()[at..] {
            [b'-', b'-', ..] => text[at..].find('\n').map_or(text.len(), |found| at + found),
            [b'/', b'*', ..] => text[at..].find("*/").map_or(text.len(), |found| at + found + 2),
            // A doubled quote ends one string and begins the next, which blanks the same bytes.
            [b'\'', ..] => text[at + 1..].find('\'').map_or(text.len(), |found| at + found + 2),
            _ => {
                at += 1;
                continue;
            }
        };
        bytes[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8(bytes).expect("blanked pieces begin and end at characters")
}

/// `$$` or `$name$` at the start of a text; `$1` is a parameter.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = leading_word(text.strip_prefix('$')?);
    let is_tag =
        !name.starts_with(|first: char| first.is_ascii_digit()) && text[1 + name.len()..].starts_with('$');
    is_tag.then(|| &text[..name.len() + 2])
}

/// Names in the schema `jobforge` that stand outside parentheses: the functions, not their arguments' types.
fn outermost_names(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut names = Vec::new();
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'j' if depth == 0 => names.extend(list[at..].strip_prefix("jobforge.").map(leading_word)),
            _ => {}
        }
    }
    names
}

fn one_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_one_statement_whatever_its_body_holds() {
        let text = "-- first;\ncreate or replace function jobforge.f(p int default $1)\nlanguage plpgsql security definer\nas $body$\nbegin\n  -- it's; fine\n  return 'a;b';\nend\n$body$;\n\ncomment on function jobforge.f(int) is 'what; why';\n";
        let found = statements(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].defines(), found[0].line, found[0].body_lines), (Some("f"), 2, 4));
        assert!(found[0].is_definer());
        assert_eq!((found[1].comments_on(), found[1].line), (Some("f"), 11));
    }

    #[test]
    fn a_grant_names_functions_and_roles() {
        let text = "grant execute on function jobforge.a(uuid, jobforge.thing[]), jobforge.b() to jf_tenant, jf_worker;";
        let found = statements(text);
        let (functions, roles) = found[0].grants_execute().expect("a grant");
        assert_eq!(functions, ["a", "b"]);
        assert_eq!(roles, ["jf_tenant", "jf_worker"]);
    }

    #[test]
    fn strings_and_comments_are_no_code() {
        assert_eq!(code("a 'it''s' b -- c").trim_end(), "a         b");
    }
}
