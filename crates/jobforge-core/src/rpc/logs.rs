//! A job's log lines in pages.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::Columns;
use crate::error::Error;

/// Which lines of a job's log.
#[derive(Clone, Copy, Debug)]
pub struct LogsRequest {
    /// Of this attempt alone; `None` means of all.
    pub number: Option<i32>,
    /// After this line.
    pub after: Option<LogPosition>,
    /// The most lines of the page, 1 to 10000.
    pub limit: i32,
}

impl Default for LogsRequest {
    fn default() -> LogsRequest {
        LogsRequest { number: None, after: None, limit: 1000 }
    }
}

/// A place in a job's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The attempt's number.
    pub number: i32,
    /// The line of that attempt.
    pub line: i32,
}

/// A line of a job's log as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoggedLine {
    /// The attempt that said it.
    pub number: i32,
    /// Its place in that attempt's log.
    pub line: i32,
    /// When it was reported.
    pub at: Timestamp,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// What it says.
    pub message: String,
}

impl LoggedLine {
    /// Where the next page goes on.
    pub fn position(&self) -> LogPosition {
        LogPosition { number: self.number, line: self.line }
    }
}

/// A page of a job's log lines in their order, live or over; one shorter than its limit is the last for now.
pub async fn list_logs<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    job: Uuid,
    request: LogsRequest,
) -> Result<Vec<LoggedLine>, Error> {
    const OPERATION: &str = "list_logs";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select l.number, l.line, l.at, l.level, l.message
             from t cross join lateral jobforge.list_logs(p_tenant_id => t.tenant::uuid, p_job_id => $2,
               p_number => $3, p_after_number => $4, p_after_line => $5, p_limit => $6) as l",
            &[
                (&tenant, Type::UUID),
                (&job, Type::UUID),
                (&request.number, Type::INT4),
                (&request.after.map(|after| after.number), Type::INT4),
                (&request.after.map(|after| after.line), Type::INT4),
                (&request.limit, Type::INT4),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(OPERATION, row);
            Ok(LoggedLine {
                number: columns.take()?,
                line: columns.take()?,
                at: columns.take()?,
                level: columns.take()?,
                message: columns.take()?,
            })
        })
        .collect()
}
