//! `connector.report.generate`: rows given, or numbers of the tenant's own jobs, as JSON, HTML or CSV.

mod csv;
mod html;
mod json;
mod source;
mod table;

use jiff::Timestamp;
use jobforge_core::rpc;
use jobforge_worker::{Context, HandlerError, HandlerResult, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::failure::permanent;
use table::Table;

/// The job type.
pub const TYPE: &str = "connector.report.generate";
/// The largest result in JSON: a job's result holds 1 MiB, and Postgres writes some of it longer.
const MAX_RESULT: usize = 900_000;

/// The payload's JSON Schema.
pub fn schema() -> &'static str {
    include_str!("schema.json")
}

/// What a job is given: columns with rows, or a source of numbers with its period.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportRequest {
    /// What to make.
    pub format: Format,
    /// What stands above it.
    pub title: Option<String>,
    /// The file's name without its ending: letters, digits, dashes, underscores.
    pub filename: Option<String>,
    /// The columns, in their order.
    pub columns: Option<Vec<String>>,
    /// The rows: lists as long as the columns, or objects with columns for names.
    pub rows: Option<Vec<Box<RawValue>>>,
    /// Where numbers come from instead of rows.
    pub source: Option<Source>,
    /// How they are grouped.
    pub group_by: Option<GroupBy>,
    /// From here on; without, a day before the end.
    pub from: Option<Timestamp>,
    /// Up to here; without, now.
    pub to: Option<Timestamp>,
}

/// In which form a report comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An object with title, time, columns and rows.
    Json,
    /// A page with one table.
    Html,
    /// RFC 4180, with a header.
    Csv,
}

/// Where the numbers of a report come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The jobs that were made in the period, by what they are now.
    Jobs,
    /// What came and went in the period, as sampled.
    Flow,
}

/// How numbers are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupBy {
    /// By the jobs' type.
    Type,
    /// By their queue.
    Queue,
    /// By what they are now.
    Status,
    /// By hours of UTC.
    Hour,
    /// By days of UTC.
    Day,
}

/// The report, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In which form.
    pub format: Format,
    /// The same for HTTP.
    pub content_type: String,
    /// What to call its file.
    pub filename: String,
    /// The report itself.
    pub body: String,
    /// How many rows it has.
    pub rows: usize,
    /// Whether not all could be counted.
    pub truncated: bool,
}

/// Why no report can be made; no retry mends it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Neither rows nor a source, or both.
    #[error("a report is made of either columns with rows, or of a source with its group_by, from and to")]
    OneOfTwo,
    /// The source has no such groups.
    #[error("source {from} is not grouped by {group_by}: it knows {known}")]
    Grouping {
        /// The source.
        from: &'static str,
        /// What was asked for.
        group_by: String,
        /// What it knows.
        known: &'static str,
    },
    /// The columns cannot head a table.
    #[error("the columns of a report are 1 to {MAX_COLUMNS} different names", MAX_COLUMNS = table::MAX_COLUMNS)]
    Columns,
    /// A row does not fit the columns.
    #[error("row {row} of the report {what}")]
    Row {
        /// Which one, from one.
        row: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The name is none for a file.
    #[error("a report's filename has 1 to 100 letters, digits, dashes and underscores")]
    Filename,
    /// The title is too long.
    #[error("a report's title has at most 200 characters")]
    Title,
    /// The result would not be stored.
    #[error(
        "the report takes {bytes} bytes as a job's result, at most {MAX_RESULT}: ask for fewer rows or columns"
    )]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// Writing it failed.
    #[error("the report cannot be written: {0}")]
    Writing(String),
}

/// The handler.
pub async fn generate(ctx: Context, request: ReportRequest) -> HandlerResult {
    request.check().map_err(permanent)?;
    let filled = fill(&ctx, &request).await?;
    let report = write(&request, &filled).map_err(permanent)?;
    Ok(Outcome::complete(&report)?)
}

/// A table, when it was made, and whether it lacks something.
#[derive(Debug)]
struct Filled {
    table: Table,
    at: Timestamp,
    truncated: bool,
}

/// The rows of the payload, or of the source. The time is the database's.
async fn fill(ctx: &Context, request: &ReportRequest) -> Result<Filled, HandlerError> {
    if let (Some(columns), Some(rows)) = (&request.columns, &request.rows) {
        let table = Table::new(columns, rows).map_err(permanent)?;
        let at = ctx.call("clock", |client| async move { rpc::clock(&*client).await }).await?;
        return Ok(Filled { table, at, truncated: false });
    }
    source::fill(ctx, request).await
}

/// The report of a table.
fn write(request: &ReportRequest, filled: &Filled) -> Result<Report, ReportError> {
    let title = request.title.as_deref().unwrap_or("Report");
    let (body, content_type, ending) = match request.format {
        Format::Json => (json::write(title, filled)?, "application/json", "json"),
        Format::Html => (html::write(title, filled)?, "text/html; charset=utf-8", "html"),
        Format::Csv => (csv::write(&filled.table)?, "text/csv; charset=utf-8", "csv"),
    };
    let name = request.filename.as_deref().unwrap_or("report");
    let report = Report {
        format: request.format,
        content_type: content_type.to_owned(),
        filename: format!("{name}.{ending}"),
        body,
        rows: filled.table.rows.len(),
        truncated: filled.truncated,
    };
    let bytes = serde_json::to_string(&report).map_err(|e| ReportError::Writing(e.to_string()))?.len();
    if bytes > MAX_RESULT { Err(ReportError::TooLarge { bytes }) } else { Ok(report) }
}

impl ReportRequest {
    fn check(&self) -> Result<(), ReportError> {
        let rows = self.columns.is_some() && self.rows.is_some();
        let some_rows = self.columns.is_some() || self.rows.is_some();
        let period = self.group_by.is_some() || self.from.is_some() || self.to.is_some();
        match self.source {
            None if rows && !period => {}
            Some(_) if !some_rows => {}
            _ => return Err(ReportError::OneOfTwo),
        }
        source::check(self)?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        if let Some(name) = &self.filename
            && !((1..=100).contains(&name.len()) && name.chars().all(is_plain))
        {
            return Err(ReportError::Filename);
        }
        match &self.title {
            Some(title) if title.chars().count() > 200 => Err(ReportError::Title),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
