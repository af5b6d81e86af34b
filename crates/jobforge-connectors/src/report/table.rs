//! Rows under columns. A cell is kept as the JSON it came as, so that 1.10 stays 1.10.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::ReportError;

pub(super) const MAX_COLUMNS: usize = 200;

/// Columns in their order, and rows as wide as they are many.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// One value, as JSON.
#[derive(Clone, Debug)]
pub(super) struct Cell(pub(super) Box<RawValue>);

impl Table {
    /// Of rows that are lists or objects.
    pub(super) fn new(columns: &[String], rows: &[Box<RawValue>]) -> Result<Table, ReportError> {
        let different: BTreeSet<&str> = columns.iter().map(String::as_str).collect();
        let sound = (1..=MAX_COLUMNS).contains(&columns.len()) && !different.contains("");
        if !sound || different.len() != columns.len() {
            return Err(ReportError::Columns);
        }
        let rows = rows
            .iter()
            .enumerate()
            .map(|(at, row)| read_row(columns, row).map_err(|what| ReportError::Row { row: at + 1, what }));
        let rows = rows.collect::<Result<_, _>>()?;
        Ok(Table { columns: columns.to_vec(), rows })
    }
}

fn read_row(columns: &[String], row: &RawValue) -> Result<Vec<Cell>, String> {
    if row.get().starts_with('[') {
        let cells: Vec<Box<RawValue>> = serde_json::from_str(row.get()).map_err(|e| e.to_string())?;
        return match cells.len() == columns.len() {
            true => Ok(cells.into_iter().map(Cell).collect()),
            false => Err(format!("has {} values for {} columns", cells.len(), columns.len())),
        };
    } else if !row.get().starts_with('{') {
        return Err("is neither a list nor an object".to_owned());
    }
    let mut cells: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(row.get()).map_err(|e| e.to_string())?;
    let row = columns.iter().map(|name| cells.remove(name).map_or_else(Cell::null, Cell)).collect();
    match cells.keys().next() {
        Some(name) => Err(format!("has a value for {name:?}, which is no column")),
        None => Ok(row),
    }
}

impl Cell {
    /// No value.
    pub(super) fn null() -> Cell {
        Cell(RawValue::NULL.to_owned())
    }

    /// What a table shows: a string's text, nothing for null, and the JSON of everything else.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self.0.get() {
            "null" => Cow::Borrowed(""),
            json if json.starts_with('"') => {
                serde_json::from_str::<String>(json).map_or(Cow::Borrowed(json), Cow::Owned)
            }
            json => Cow::Borrowed(json),
        }
    }

    /// Whether it is a number.
    pub(super) fn is_number(&self) -> bool {
        self.0.get().starts_with(|first: char| first == '-' || first.is_ascii_digit())
    }
}
