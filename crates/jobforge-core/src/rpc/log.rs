//! Log lines of a running attempt.

use serde::Deserialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::JobRef;
use super::wire::{Columns, clean};
use crate::error::Error;

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For whoever looks for a fault.
    Debug,
    /// What happened.
    Info,
    /// What should not have happened.
    Warn,
    /// What went wrong.
    Error,
}

impl Level {
    /// As the database knows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// What it says.
    pub message: String,
}

/// Appends lines to a running attempt; tells how many were kept.
pub async fn append_log<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    lines: &[LogLine],
) -> Result<i32, Error> {
    const OPERATION: &str = "append_log";
    if lines.is_empty() {
        return Ok(0);
    }
    let levels: Vec<&str> = lines.iter().map(|line| line.level.as_str()).collect();
    let messages: Vec<_> = lines.iter().map(|line| clean(&line.message)).collect();
    let row = c
        .query_typed_one(
            "select jobforge.append_log(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3, p_fence => $4,
               p_levels => $5, p_messages => $6)",
            &[
                (&lease, Type::UUID),
                (&job.tenant_id, Type::UUID),
                (&job.id, Type::UUID),
                (&job.fence, Type::INT4),
                (&levels, Type::TEXT_ARRAY),
                (&messages, Type::TEXT_ARRAY),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
