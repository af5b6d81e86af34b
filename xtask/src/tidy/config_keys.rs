//! Settings and their defaults file agree: a user finds every key, with its default, in one commented file.

use super::Violation;
use crate::source::{Tree, leading_word, rust::RustSource};

const RULE: &str = "config-key";
const SOURCE: &str = "crates/jobforge/src/config";
const DEFAULTS: &str = "crates/jobforge/src/config.default.toml";

struct Field<'a> {
    path: &'a str,
    line: usize,
    name: String,
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(defaults) = tree.get(DEFAULTS) else { return Vec::new() };
    let sources = tree.under(SOURCE).filter(|(path, _)| path.ends_with(".rs"));
    let fields: Vec<Field<'_>> = sources.flat_map(|(path, text)| fields(path, text)).collect();
    if fields.is_empty() {
        return Vec::new();
    }
    let known = |key: &str| defaults.lines().flat_map(keys_with_comments).any(|known| known == key);
    let missing = fields.iter().filter(|field| !known(&field.name)).map(|field| {
        Violation::at(RULE, (field.path, field.line), format!("setting {} is not in {DEFAULTS}", field.name))
    });
    let is_field = |key: &str| fields.iter().any(|field| field.name == key);
    let stale =
        defaults.lines().enumerate().flat_map(|(index, line)| keys(line).map(move |key| (index + 1, key)));
    let stale = stale.filter(|(_, key)| !is_field(key)).map(|(line, key)| {
        Violation::at(RULE, (DEFAULTS, line), format!("{key} is no setting: no field has this name"))
    });
    missing.chain(stale).collect()
}

/// The fields of structs that are deserialized; what serde skips is no setting.
fn fields<'a>(path: &'a str, text: &'a str) -> Vec<Field<'a>> {
    let source = RustSource::new(text);
    let code = source.code();
    let end = source.tests_from_line().unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let (mut derives, mut inside, mut skipped) = (false, false, false);
    for (index, line) in code.lines().enumerate().take_while(|(index, _)| index + 1 < end) {
        let line_text = line.trim();
        if line_text.starts_with('#') {
            derives |= line_text.contains("Deserialize");
            skipped |= line_text.contains("serde(skip");
        } else if let Some(name) = field_name(line_text).filter(|_| inside) {
            if !skipped {
                found.push(Field { path, line: index + 1, name: name.to_owned() });
            }
            skipped = false;
        } else if line_text.contains("struct ") {
            (inside, derives) = (derives && line_text.ends_with('{'), false);
        } else if line_text.starts_with('}') {
            (inside, derives) = (false, false);
        } else if line_text.contains("enum ") {
            derives = false;
        }
    }
    found
}

/// The name in `pub name: Type,` or `pub(crate) name: Type,`.
fn field_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub "))?;
    let name = leading_word(rest);
    rest[name.len()..].starts_with(':').then_some(name)
}

/// A setting without default stands in the file as a comment.
fn keys_with_comments(line: &str) -> impl Iterator<Item = &str> {
    keys(line.trim_start_matches(['#', ' ']))
}

/// The key of `key = value`, or the parts of `[section.part]`.
fn keys(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim();
    let section = line.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let key = line.split_once('=').map(|(key, _)| key.trim());
    let parts =
        section.or(key.filter(|key| !key.is_empty() && leading_word(key) == *key)).unwrap_or_default();
    parts.split('.').map(|part| part.trim_matches(['[', ' '])).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    const CONFIG: &str = "crates/jobforge/src/config.rs";
    const STRUCTS: &str = "#[derive(Debug, Deserialize)]\npub(crate) struct Config {\n    /// Where.\n    pub(crate) worker: Worker,\n}\n\
        #[derive(Deserialize)]\npub struct Worker {\n    pub lease_ms: u64,\n    #[serde(skip)]\n    pub origin: String,\n    pub name: Option<String>,\n}\n\
        pub struct Problem {\n    pub text: String,\n}\n";

    #[test]
    fn settings_with_defaults_pass() {
        let defaults = "# The worker.\n[worker]\nlease_ms = 30000\n# name = \"host\"\n";
        assert!(complaints(check, &[(CONFIG, STRUCTS), (DEFAULTS, defaults)]).is_empty());
    }

    #[test]
    fn a_setting_without_default_fails() {
        assert_eq!(
            complaints(check, &[(CONFIG, STRUCTS), (DEFAULTS, "[worker]\nname = \"a\"\n")]),
            [
                "crates/jobforge/src/config.rs:8: [config-key] setting lease_ms is not in crates/jobforge/src/config.default.toml"
            ]
        );
    }

    #[test]
    fn a_default_of_no_setting_fails() {
        let defaults = "[worker]\nlease_ms = 1\nname = \"a\"\ngone = 1\n";
        assert_eq!(
            complaints(check, &[(CONFIG, STRUCTS), (DEFAULTS, defaults)]),
            [
                "crates/jobforge/src/config.default.toml:4: [config-key] gone is no setting: no field has this name"
            ]
        );
    }
}
