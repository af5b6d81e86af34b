//! Data to stdout, for people or for programs; everything else to stderr.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;

/// For whom a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Tables and sentences.
    Human,
    /// One JSON value.
    Json,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        if json { Output::Json } else { Output::Human }
    }

    pub(crate) fn is_json(self) -> bool {
        self == Output::Json
    }

    /// Answers with a value in JSON, or with its text for people.
    pub(crate) fn answer(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        let text = match self {
            Output::Json => serde_json::to_string_pretty(value)?,
            Output::Human => inert(&text()),
        };
        print(&text)
    }
}

/// Prints to stdout; a reader that went away (`jobforge jobs list | head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    match writeln!(io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

/// What others wrote as a terminal may show it: control characters but newlines and tabs stand as escapes, since they
/// would move, recolour or retitle what somebody looks at.
pub(crate) fn inert(text: &str) -> String {
    escaped(text, &['\n', '\t'])
}

/// The same of what belongs on one line.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, &[])
}

fn escaped(text: &str, kept: &[char]) -> String {
    let show = |c: char| match c.is_control() && !kept.contains(&c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(show).collect()
}

/// Tells people on stderr, as one write. That nobody reads it, or nobody can, changes nothing of what this process does.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// A table with aligned columns and no lines, which is easy to read and to cut up.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    table.add_rows(rows.into_iter().map(|row| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>()));
    let columns = table.column_iter_mut();
    for column in columns {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// One thing and what is known of it, a fact a line; what is not known is left out.
pub(crate) fn facts<'a>(head: &str, facts: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let known =
        facts.into_iter().filter_map(|(name, value)| Some(format!("  {name:<14} {}", one_line(&value?))));
    std::iter::once(one_line(head)).chain(known).collect::<Vec<_>>().join("\n")
}

/// A time as people read it, in their own zone, to the second.
pub(crate) fn local(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// How long something took or takes, in one or two units.
pub(crate) fn span(from: Timestamp, to: Timestamp) -> String {
    let ms = to.duration_since(from).as_millis().max(0);
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{:.1}s", f64::from(i32::try_from(ms).unwrap_or(0)) / 1000.0),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
        3_600_000..86_400_000 => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{}d{:02}h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

/// A rate in jobs a second; unknown without samples.
pub(crate) fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(
        || "-".to_owned(),
        |rate| if rate < 10.0 { format!("{rate:.2}") } else { format!("{rate:.0}") },
    )
}

/// Whether somebody watches stderr.
pub(crate) fn watched() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let from: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let after = |to: &str| span(from, to.parse().unwrap());
        assert_eq!(after("2030-01-01T00:00:00.25Z"), "250ms");
        assert_eq!(after("2030-01-01T00:00:01.5Z"), "1.5s");
        assert_eq!(after("2030-01-01T00:02:03Z"), "2m03s");
        assert_eq!(after("2030-01-02T05:00:00Z"), "1d05h");
        assert_eq!(after("2029-12-31T23:00:00Z"), "0ms");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!(
            (per_second(None), per_second(Some(0.126)), per_second(Some(1234.5))),
            ("-".into(), "0.13".into(), "1234".into())
        );
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let text = "\u{1b}[2Jé\r\u{7f}\u{9b}m\tb\nc";
        assert_eq!(inert(text), "\\u{1b}[2Jé\\r\\u{7f}\\u{9b}m\tb\nc");
        assert_eq!(one_line("a\tb\nc"), "a\\tb\\nc");
        assert_eq!(table(&["a"], [vec!["x\ny".to_owned()]]), "A\nx\\ny");
        assert_eq!(facts("h\ni", [("f", Some("x\ny".to_owned()))]), "h\\ni\n  f              x\\ny");
    }

    #[test]
    fn a_table_has_no_trailing_blanks() {
        let text = table(&["id", "type"], [vec!["1".to_owned(), "demo.echo".to_owned()]]);
        assert_eq!(text, "ID  TYPE\n1   demo.echo");
    }
}
