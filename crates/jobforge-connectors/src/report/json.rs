//! The report as one JSON object.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Filled, ReportError};

#[derive(Serialize)]
struct Body<'a> {
    title: &'a str,
    generated_at: String,
    truncated: bool,
    columns: &'a [String],
    rows: Vec<Vec<&'a RawValue>>,
}

pub(super) fn write(title: &str, filled: &Filled) -> Result<String, ReportError> {
    let rows = filled.table.rows.iter().map(|row| row.iter().map(|cell| &*cell.0).collect());
    let body = Body {
        title,
        generated_at: filled.at.to_string(),
        truncated: filled.truncated,
        columns: &filled.table.columns,
        rows: rows.collect(),
    };
    serde_json::to_string(&body).map_err(|error| ReportError::Writing(error.to_string()))
}
