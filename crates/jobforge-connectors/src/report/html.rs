//! The report as a page. Every value is escaped by the template's engine; none is ever a template.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use super::table::Cell;
use super::{Filled, ReportError};

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    generated_at: String,
    truncated: bool,
    columns: &'a [String],
    rows: Vec<Vec<Shown>>,
}

#[derive(Serialize)]
struct Shown {
    text: String,
    number: bool,
}

pub(super) fn write(title: &str, filled: &Filled) -> Result<String, ReportError> {
    let show = |cell: &Cell| Shown { text: cell.text().into_owned(), number: cell.is_number() };
    let page = Page {
        title,
        generated_at: filled.at.to_string(),
        truncated: filled.truncated,
        columns: &filled.table.columns,
        rows: filled.table.rows.iter().map(|row| row.iter().map(show).collect()).collect(),
    };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment
        .render_str(include_str!("report.html"), Serde(&page))
        .map_err(|error| ReportError::Writing(error.to_string()))
}
