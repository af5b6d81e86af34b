//! Redrive: dead letters go back to work, edited if asked.

use serde::Serialize;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::dead_letters::DeadLetterFilter;
use super::job::Payload;
use super::payload;
use super::wire::{Columns, Json, clean};
use crate::error::Error;

/// Which dead letters to redrive.
#[derive(Clone, Debug)]
pub enum Redriven<'a> {
    /// These, at most 10,000.
    Jobs(&'a [Uuid]),
    /// The oldest that match, after a cursor if this goes on.
    Matching {
        /// Which.
        filter: &'a DeadLetterFilter,
        /// Where the call before ended.
        cursor: Option<&'a str>,
        /// The most of one call, 1 to 10,000.
        limit: i32,
    },
}

/// What is done to them on the way.
#[derive(Clone, Debug, Default)]
pub struct Redrive {
    /// A JSON Patch (RFC 6902) of their payloads.
    pub patch: Option<Payload>,
    /// How often they may fail from now on.
    pub max_attempts: Option<i32>,
    /// Why, for the record.
    pub reason: Option<String>,
    /// Only tell what would become of each.
    pub dry_run: bool,
}

/// What became of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RedriveRow {
    /// The job.
    pub id: Uuid,
    /// `redriven`, `redrivable` (a dry run) or `skipped`.
    pub verdict: String,
    /// Why it was skipped: the code, e.g. `JF008`.
    pub error_code: Option<String>,
    /// Why it was skipped: the stable reason, e.g. `dedupe_twin_alive`.
    pub error_reason: Option<String>,
}

/// What a call did.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RedriveAnswer {
    /// The record of it, by which it is undone; none of a dry run.
    pub operation_id: Option<Uuid>,
    /// One row for each job.
    pub jobs: Vec<RedriveRow>,
    /// Where the next call goes on, if there may be more.
    pub next_cursor: Option<String>,
    /// Whether the search did not run out of its time.
    pub complete: bool,
}

/// Puts dead letters back to work, each by itself: one that cannot go is skipped with a reason.
pub async fn redrive_jobs<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    which: &Redriven<'_>,
    how: &Redrive,
) -> Result<RedriveAnswer, Error> {
    const OPERATION: &str = "redrive_jobs";
    payload::check(OPERATION, how.patch.as_ref(), "patch_malformed", "the patch")?;
    let all = DeadLetterFilter::default();
    let (ids, filter, cursor, limit) = match *which {
        Redriven::Jobs(ids) => (Some(ids), &all, None, 1),
        Redriven::Matching { filter, cursor, limit } => (None, filter, cursor, limit),
    };
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select r.id, r.verdict, r.error_code, r.error_reason, r.operation_id, r.next_cursor, r.complete
             from t cross join lateral jobforge.redrive_jobs(p_tenant_id => t.tenant::uuid,
               p_job_ids => $2, p_fingerprint => $3, p_type => $4, p_queue => $5, p_failed_after => $6,
               p_failed_before => $7, p_patch => $8, p_max_attempts => $9, p_reason => $10,
               p_dry_run => $11, p_limit => $12, p_cursor => $13) as r",
            &[
                (&tenant, Type::UUID),
                (&ids, Type::UUID_ARRAY),
                (&filter.fingerprint, Type::TEXT),
                (&filter.job_type, Type::TEXT),
                (&filter.queue, Type::TEXT),
                (&filter.failed_after, Type::TIMESTAMPTZ),
                (&filter.failed_before, Type::TIMESTAMPTZ),
                (&how.patch.as_ref().map(Json::from), Type::JSONB),
                (&how.max_attempts, Type::INT4),
                (&how.reason.as_deref().map(clean), Type::TEXT),
                (&how.dry_run, Type::BOOL),
                (&limit, Type::INT4),
                (&cursor, Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let (end, rows) = rows.split_last().ok_or_else(|| Error::shape(OPERATION, "no rows"))?;
    let jobs = rows.iter().map(|row| read_row(OPERATION, row)).collect::<Result<_, _>>()?;
    let mut end = Columns::of(OPERATION, end).skip(4);
    Ok(RedriveAnswer { operation_id: end.take()?, jobs, next_cursor: end.take()?, complete: end.take()? })
}

fn read_row(operation: &'static str, row: &Row) -> Result<RedriveRow, Error> {
    let mut columns = Columns::of(operation, row);
    Ok(RedriveRow {
        id: columns.take()?,
        verdict: columns.take()?,
        error_code: columns.take()?,
        error_reason: columns.take()?,
    })
}
