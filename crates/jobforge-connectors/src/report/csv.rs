//! CSV as RFC 4180 has it. A text that a spreadsheet would take for a formula is made a text by an apostrophe.

use super::ReportError;
use super::table::{Cell, Table};

/// What a formula begins with, also in the full width of East Asian letters; and what is skipped before one.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

pub(super) fn write(table: &Table) -> Result<String, ReportError> {
    let failed = |error: &dyn std::error::Error| ReportError::Writing(error.to_string());
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(table.columns.iter().map(|name| harmless(name))).map_err(|e| failed(&e))?;
    for row in &table.rows {
        writer.write_record(row.iter().map(field)).map_err(|e| failed(&e))?;
    }
    let bytes = writer.into_inner().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

/// A number is no formula, whatever its sign.
fn field(cell: &Cell) -> String {
    if cell.is_number() { cell.text().into_owned() } else { harmless(&cell.text()) }
}

fn harmless(text: &str) -> String {
    if text.starts_with(FORMULA) { format!("'{text}") } else { text.to_owned() }
}
