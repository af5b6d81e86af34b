//! `jobforge config show`: every setting and where it comes from.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::cli::{ConfigAction, ConfigArgs};
use crate::config::{Settings, redact};
use crate::output::{Output, table};

pub(crate) fn run(settings: &Settings, args: &ConfigArgs, output: Output) -> Result<ExitCode> {
    let ConfigAction::Show = args.action;
    let mut shown = Vec::new();
    collect("", &serde_json::to_value(&settings.config)?, &mut shown);
    let rows: Vec<(String, Value, &str)> =
        shown.into_iter().map(|(key, value)| (key.clone(), value, settings.origin(&key))).collect();
    let json: Map<String, Value> = rows
        .iter()
        .map(|(key, value, origin)| (key.clone(), json!({ "value": value, "origin": origin })))
        .collect();
    output.answer(&json, || {
        table(
            &["setting", "value", "comes from"],
            rows.iter().map(|(key, value, origin)| vec![key.clone(), text(value), (*origin).to_owned()]),
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Every leaf by its full name, with passwords hidden.
fn collect(prefix: &str, value: &Value, shown: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                collect(&format!("{prefix}{dot}{name}"), value, shown);
            }
        }
        _ => shown.push((prefix.to_owned(), hidden(value, prefix.ends_with("url")))),
    }
}

/// What is to be a URL need not look like one; what looks like one may have a password, whatever it is to be.
fn hidden(value: &Value, url: bool) -> Value {
    match value {
        Value::String(text) if url || text.contains("://") => redact(text).into(),
        Value::Array(values) => values.iter().map(|value| hidden(value, url)).collect(),
        _ => value.clone(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passwords_within_a_list_are_hidden() {
        let shown = hidden(&json!(["a", "x://q:hidden@h"]), false);
        assert_eq!(shown, json!(["a", "x://q:***@h"]));
    }
}
