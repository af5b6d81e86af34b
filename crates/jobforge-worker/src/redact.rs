//! Secrets out of everything a worker says: log lines, progress, errors, tails, results.
//!
//! A secret is found as it is and as JSON, URLs and base64 write it, also in the middle of a longer base64 text. Values
//! of fewer than [`LEAST`] characters are not searched for (they would hide half of every text), and neither is one
//! that a handler spreads over two lines.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use jobforge_core::Payload;
use serde_json::Value;

/// What stands in a secret's place.
pub const REDACTED: &str = "[redacted]";
/// The fewest characters of a value that is searched for.
pub const LEAST: usize = 6;
/// How often a value may have been written as JSON, each time within the last.
const JSON_DEPTH: usize = 3;
/// The most values of one payload that are searched for.
const MOST_VALUES: usize = 1000;

/// Values that must not leave the process, in all the forms in which they are searched for.
#[derive(Clone, Default)]
pub struct Secrets {
    forms: Vec<String>,
}

impl Secrets {
    /// Adds a value; one that is too short to be searched for is left out.
    pub fn add(&mut self, value: &str) {
        self.extend([value]);
    }

    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// A text with [`REDACTED`] for every secret in it.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        redact(&[self], text)
    }
}

impl<S: AsRef<str>> Extend<S> for Secrets {
    fn extend<I: IntoIterator<Item = S>>(&mut self, values: I) {
        for value in values {
            if value.as_ref().chars().count() >= LEAST {
                self.forms.extend(forms(value.as_ref()));
            }
        }
        self.forms.sort_unstable();
        self.forms.dedup();
    }
}

impl<S: AsRef<str>> FromIterator<S> for Secrets {
    fn from_iter<I: IntoIterator<Item = S>>(values: I) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.extend(values);
        secrets
    }
}

/// How many, never which.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.forms.len())
    }
}

/// What one attempt must not say, beside what its worker must not.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    /// What stands at the redacted places of its payload.
    hidden: Secrets,
    /// That is too much to be searched for: no text of it leaves the process.
    mute: bool,
    /// What its handler called a secret.
    told: Mutex<Secrets>,
}

impl Redactor {
    /// For what stands at these paths of a payload.
    pub(crate) fn hide(payload: &Value, paths: &[Path]) -> Redactor {
        let mut found = Vec::new();
        paths.iter().for_each(|path| gather(&path.0, payload, &mut found));
        found.sort_unstable();
        found.dedup();
        let mute = found.len() > MOST_VALUES;
        let hidden = if mute { Secrets::default() } else { found.iter().collect() };
        Redactor { hidden, mute, told: Mutex::default() }
    }

    pub(crate) fn add(&self, secret: &str) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).add(secret);
    }

    /// A text as it may leave the process.
    pub(crate) fn text(&self, worker: &Secrets, text: String) -> String {
        if self.mute {
            return REDACTED.to_owned();
        }
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        owned(redact(&[worker, &self.hidden, &told], &text)).unwrap_or(text)
    }

    /// A result as it may leave the process: without known secrets. What the payload's redacted places held is
    /// left in, for whoever reads the result gets it redacted by its definition.
    pub(crate) fn result(&self, worker: &Secrets, result: Payload) -> Payload {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        redact_json(&[worker, &told], result)
    }
}

/// A text as it may leave a worker whose attempt has no secrets of its own.
pub(crate) fn redact_text(worker: &Secrets, text: String) -> String {
    owned(worker.redact(&text)).unwrap_or(text)
}

/// A result as it may leave a worker whose attempt has no secrets of its own.
pub(crate) fn redact_result(worker: &Secrets, result: Payload) -> Payload {
    redact_json(&[worker], result)
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

fn redact<'t>(sets: &[&Secrets], text: &'t str) -> Cow<'t, str> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for form in sets.iter().flat_map(|secrets| &secrets.forms) {
        found.extend(text.match_indices(form.as_str()).map(|(at, form)| at..at + form.len()));
    }
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    // Where secrets overlap, one mark stands for them all.
    found.sort_unstable_by_key(|range| range.start);
    let mut clean = String::with_capacity(text.len());
    let (mut copied, mut hidden) = (0, 0);
    for range in found {
        if range.start >= hidden {
            clean.push_str(&text[copied.max(hidden)..range.start]);
            clean.push_str(REDACTED);
        }
        hidden = hidden.max(range.end);
        copied = hidden;
    }
    clean.push_str(&text[copied..]);
    Cow::Owned(clean)
}

/// Redacted inside its strings, so that it stays JSON.
fn redact_json(sets: &[&Secrets], json: Payload) -> Payload {
    if matches!(redact(sets, json.get()), Cow::Borrowed(_)) {
        return json;
    }
    let clean = serde_json::from_str(json.get()).map(|value| redact_value(sets, value));
    let clean = clean.unwrap_or_else(|_| Value::String(REDACTED.to_owned()));
    serde_json::value::to_raw_value(&clean).unwrap_or_default()
}

fn redact_value(sets: &[&Secrets], value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (redact(sets, &key).into_owned(), redact_value(sets, value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(|item| redact_value(sets, item)).collect(),
        Value::String(text) => Value::String(redact(sets, &text).into_owned()),
        Value::Number(number) => match redact(sets, &number.to_string()) {
            Cow::Owned(hidden) => Value::String(hidden),
            Cow::Borrowed(_) => Value::Number(number),
        },
        other => other,
    }
}

/// The forms in which a value is written: itself, in JSON, in URLs, in base64.
fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    // JSON stands in JSON: an answer that quotes what it was sent, in a string of a result.
    for depth in 0..JSON_DEPTH {
        let json = Value::from(forms[depth].as_str()).to_string();
        forms.push(json[1..json.len() - 1].to_owned());
    }
    let percent = percent_encoded(value);
    forms.push(percent.replace("%20", "+"));
    forms.push(lower_escapes(&percent));
    forms.push(percent);
    for shift in 0..3 {
        let inner = base64_inside(value, shift);
        forms.push(inner.replace('+', "-").replace('/', "_"));
        forms.push(inner);
    }
    forms
}

fn percent_encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// The same with small letters in its escapes.
fn lower_escapes(percent: &str) -> String {
    let mut parts = percent.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}%{}{}", part[..2].to_ascii_lowercase(), &part[2..]))
}

/// The characters that a value has in every base64 text in which this many bytes (of three) stand before it.
fn base64_inside(value: &str, shift: usize) -> String {
    let mut bytes = vec![0; shift];
    bytes.extend(value.as_bytes());
    let text = STANDARD_NO_PAD.encode(&bytes);
    // Those that hold bits of neighbours are left out.
    text[(shift * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned()
}

/// A path of redaction: a JSON Pointer in which `*` stands for every member or element; `~2` is a star.
#[derive(Debug)]
pub(crate) struct Path(Vec<Step>);

#[derive(Debug)]
enum Step {
    Any,
    Key(String),
}

impl Path {
    pub(crate) fn parse(path: &str) -> Path {
        let step = |step: &str| match step {
            "*" => Step::Any,
            key => Step::Key(key.replace("~1", "/").replace("~2", "*").replace("~0", "~")),
        };
        // What comes before the first slash is nothing.
        Path(path.split('/').skip(1).map(step).collect())
    }
}

/// The strings and numbers to which these steps lead.
fn gather(steps: &[Step], value: &Value, found: &mut Vec<String>) {
    let members = |rest: &[Step], found: &mut Vec<String>| match value {
        Value::Object(members) => members.values().for_each(|value| gather(rest, value, found)),
        Value::Array(items) => items.iter().for_each(|value| gather(rest, value, found)),
        _ => {}
    };
    match (steps.split_first(), value) {
        (Some((Step::Any, rest)), _) => members(rest, found),
        (Some((Step::Key(key), rest)), Value::Object(of)) => {
            of.get(key).into_iter().for_each(|value| gather(rest, value, found));
        }
        (Some(_), _) => {}
        (None, Value::String(text)) => found.push(text.clone()),
        (None, Value::Number(number)) => found.push(number.to_string()),
        (None, _) => members(&[], found),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_found_in_all_its_forms() {
        let secret = "p@ss \"wörd\"/+?>~";
        let secrets = Secrets::from_iter([secret]);
        let url = "p%40ss%20%22w%C3%B6rd%22%2F%2B%3F%3E~";
        let texts = [
            format!("it is {secret}, is it not"),
            serde_json::to_string(&json!({ "a": secret })).unwrap(),
            json!({ "body": json!({ "a": secret }).to_string() }).to_string(),
            format!("https://host/?q={url}&b"),
            format!("q={}", url.replace("%20", "+")),
            format!("q={}", lower_escapes(url)),
            STANDARD.encode(secret),
            URL_SAFE.encode(secret),
            STANDARD.encode(format!("user:{secret}")),
            STANDARD.encode(format!("user1:{secret}:more")),
            URL_SAFE.encode(format!("us:{secret}")),
        ];
        for text in texts {
            let clean = secrets.redact(&text);
            assert!(clean.contains(REDACTED), "{text}: {clean}");
            assert!(!clean.contains("rd") && !clean.contains("p%40ss"), "{text}: {clean}");
        }
        assert!(matches!(secrets.redact("nothing to see"), Cow::Borrowed(_)));
        assert!(!format!("{secrets:?}").contains("rd\""));
    }

    #[test]
    fn what_a_result_quotes_is_redacted_too() {
        let redactor = Redactor::default();
        redactor.add("se\"cret");
        let quoted = json!({ "sent": json!({ "key": "se\"cret" }).to_string() }).to_string();
        let result = serde_json::value::to_raw_value(&json!({ "body": quoted })).unwrap();
        let clean = redactor.result(&Secrets::default(), result);
        assert!(clean.get().contains(REDACTED) && !clean.get().contains("cret"), "{clean}");
    }

    #[test]
    fn short_values_are_not_searched_for() {
        let secrets = Secrets::from_iter(["12345", ""]);
        assert!(secrets.is_empty());
        assert_eq!(secrets.redact("12345"), "12345");
        assert_eq!(Secrets::from_iter(["123456"]).redact("a123456b"), "a[redacted]b");
    }

    #[test]
    fn overlapping_secrets_become_one_mark() {
        let secrets = Secrets::from_iter(["abcdef", "cdefgh", "redacted"]);
        assert_eq!(secrets.redact("-abcdefgh-abcdef-redacted-"), "-[redacted]-[redacted]-[redacted]-");
    }

    #[test]
    fn a_result_stays_json() {
        let redactor = Redactor::default();
        redactor.add("4111111111");
        redactor.add("hidden");
        let raw = r#"{"n": 4111111111, "list": ["so hidden", 1.50], "hidden": true}"#;
        let clean = redactor.result(&Secrets::default(), serde_json::from_str(raw).unwrap());
        let clean: Value = serde_json::from_str(clean.get()).unwrap();
        assert_eq!(
            clean,
            json!({"n": REDACTED, "list": [format!("so {REDACTED}"), 1.5], "[redacted]": true})
        );
        let other: Payload = serde_json::from_str("{\"a\": 1.50}").unwrap();
        assert_eq!(redactor.result(&Secrets::default(), other).get(), "{\"a\": 1.50}", "as it came");
    }

    #[test]
    fn paths_lead_to_their_values() {
        let payload = json!({
            "card": {"number": 4_111_111_111_i64, "cvv": "123"}, "a/b": {"*": "starred"},
            "items": [{"key": "first-key"}, {"key": ["second-key"]}, 7], "open": "nothing-here",
        });
        let found = |path: &str| {
            let redactor = Redactor::hide(&payload, &[Path::parse(path)]);
            let all = ["4111111111", "starred", "first-key", "second-key", "nothing-here"];
            let hidden = |text: &&str| redactor.text(&Secrets::default(), (*text).to_owned()) == REDACTED;
            all.into_iter().filter(hidden).collect::<Vec<_>>()
        };
        assert_eq!(found("/card/number"), ["4111111111"]);
        assert_eq!(found("/card"), ["4111111111"]);
        assert_eq!(found("/a~1b/~2"), ["starred"]);
        assert_eq!(found("/items/*/key"), ["first-key", "second-key"]);
        assert_eq!(found("/items/0/key"), Vec::<&str>::new(), "positions are not named");
        assert_eq!(found("").len(), 5);
        assert_eq!(found("/none/*"), Vec::<&str>::new());
    }

    #[test]
    fn too_many_values_silence_the_attempt() {
        let many: Vec<String> = (0..=MOST_VALUES).map(|n| format!("value-{n}")).collect();
        let redactor = Redactor::hide(&json!(many), &[Path::parse("/*")]);
        assert_eq!(redactor.text(&Secrets::default(), "anything".to_owned()), REDACTED);
    }
}
