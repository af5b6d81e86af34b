//! Look at dead letters: a page of them, and groups of one cause.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::Payload;
use super::wire::Columns;
use crate::error::Error;

/// Which dead letters; what is `None` is not asked.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    /// Of this cause, as groups and lists tell it.
    pub fingerprint: Option<String>,
    /// Of this type.
    pub job_type: Option<String>,
    /// In this queue.
    pub queue: Option<String>,
    /// That died at or after.
    pub failed_after: Option<Timestamp>,
    /// That died before.
    pub failed_before: Option<Timestamp>,
}

/// A job that waits for somebody to look at it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetter {
    /// The job.
    pub id: Uuid,
    /// The key of its definition.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its queue.
    pub queue: String,
    /// `failed` or `dead`.
    pub status: String,
    /// The status and how the last attempt ended, e.g. `dead/lost`.
    pub class: String,
    /// What it has in common with those of the same cause.
    pub fingerprint: String,
    /// What went wrong last.
    pub error: Option<String>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it died.
    pub finished_at: Timestamp,
    /// The number of its last attempt.
    pub attempt: i32,
    /// How often it failed.
    pub failures: i32,
    /// How often its worker was lost.
    pub deaths: i32,
    /// How often it may fail.
    pub max_attempts: i32,
    /// What kind of thing made it.
    pub source: String,
    /// What ties it to other records.
    pub correlation_id: Option<String>,
    /// Labels, a JSON array.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub tags: Option<Payload>,
}

/// Dead letters, the last to die first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetterPage {
    /// The dead letters.
    pub jobs: Vec<DeadLetter>,
    /// Where the next page starts, if there may be one.
    pub next_cursor: Option<String>,
    /// Whether the search did not run out of its time: if it did, the page is a partial one.
    pub complete: bool,
}

/// Dead letters of one cause.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetterGroup {
    /// What they have in common, for filters.
    pub fingerprint: String,
    /// The key of their definition.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Their status and how their last attempts ended.
    pub class: String,
    /// Their error, with what differs replaced by placeholders.
    pub message: Option<String>,
    /// How many.
    pub jobs: i64,
    /// When the first died.
    pub first_at: Timestamp,
    /// When the last died.
    pub last_at: Timestamp,
    /// The last.
    pub sample_id: Uuid,
    /// Its error.
    pub sample_error: Option<String>,
    /// Whether there were more dead letters than were looked at.
    pub capped: bool,
}

/// A page of dead letters; `limit` is 1 to 1000.
pub async fn list_dead_letters<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    filter: &DeadLetterFilter,
    limit: i32,
    cursor: Option<&str>,
) -> Result<DeadLetterPage, Error> {
    const OPERATION: &str = "list_dead_letters";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select j.id, j.type, j.queue, j.status, j.class, j.fingerprint, j.error, j.created_at,
               j.finished_at, j.attempt, j.failures, j.deaths, j.max_attempts, j.source, j.correlation_id,
               j.tags, j.next_cursor, j.complete
             from t cross join lateral jobforge.list_dead_letters(p_tenant_id => t.tenant::uuid,
               p_fingerprint => $2, p_type => $3, p_queue => $4, p_failed_after => $5,
               p_failed_before => $6, p_limit => $7, p_cursor => $8) as j",
            &[
                (&tenant, Type::UUID),
                (&filter.fingerprint, Type::TEXT),
                (&filter.job_type, Type::TEXT),
                (&filter.queue, Type::TEXT),
                (&filter.failed_after, Type::TIMESTAMPTZ),
                (&filter.failed_before, Type::TIMESTAMPTZ),
                (&limit, Type::INT4),
                (&cursor, Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let (end, rows) = rows.split_last().ok_or_else(|| Error::shape(OPERATION, "no rows"))?;
    let jobs =
        rows.iter().map(|row| read_letter(&mut Columns::of(OPERATION, row))).collect::<Result<_, _>>()?;
    let mut columns = Columns::of(OPERATION, end).skip(16);
    Ok(DeadLetterPage { jobs, next_cursor: columns.take()?, complete: columns.take()? })
}

/// Dead letters by cause, the largest group first. The filter's fingerprint is not asked: each group has one.
pub async fn group_dead_letters<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    filter: &DeadLetterFilter,
    limit: i32,
) -> Result<Vec<DeadLetterGroup>, Error> {
    const OPERATION: &str = "group_dead_letters";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select g.fingerprint, g.type, g.class, g.message, g.jobs, g.first_at, g.last_at, g.sample_id,
               g.sample_error, g.capped
             from t cross join lateral jobforge.group_dead_letters(p_tenant_id => t.tenant::uuid,
               p_type => $2, p_queue => $3, p_failed_after => $4, p_failed_before => $5,
               p_limit => $6) as g",
            &[
                (&tenant, Type::UUID),
                (&filter.job_type, Type::TEXT),
                (&filter.queue, Type::TEXT),
                (&filter.failed_after, Type::TIMESTAMPTZ),
                (&filter.failed_before, Type::TIMESTAMPTZ),
                (&limit, Type::INT4),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row| read_group(&mut Columns::of(OPERATION, row))).collect()
}

fn read_letter(columns: &mut Columns<'_>) -> Result<DeadLetter, Error> {
    Ok(DeadLetter {
        id: columns.take()?,
        job_type: columns.take()?,
        queue: columns.take()?,
        status: columns.take()?,
        class: columns.take()?,
        fingerprint: columns.take()?,
        error: columns.take()?,
        created_at: columns.take()?,
        finished_at: columns.take()?,
        attempt: columns.take()?,
        failures: columns.take()?,
        deaths: columns.take()?,
        max_attempts: columns.take()?,
        source: columns.take()?,
        correlation_id: columns.take()?,
        tags: columns.json_opt()?,
    })
}

fn read_group(columns: &mut Columns<'_>) -> Result<DeadLetterGroup, Error> {
    Ok(DeadLetterGroup {
        fingerprint: columns.take()?,
        job_type: columns.take()?,
        class: columns.take()?,
        message: columns.take()?,
        jobs: columns.take()?,
        first_at: columns.take()?,
        last_at: columns.take()?,
        sample_id: columns.take()?,
        sample_error: columns.take()?,
        capped: columns.take()?,
    })
}
