//! Counts for a report that a job makes: the tenant's jobs of a period, and what came and went in it.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::job::JobRef;
use super::wire::Columns;
use crate::error::Error;

/// How a tenant's jobs are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobGroup {
    /// By their type.
    Type,
    /// By their queue.
    Queue,
    /// By what they are now.
    Status,
    /// By the day of UTC on which they were made.
    Day,
}

impl JobGroup {
    /// Its name in SQL.
    pub fn as_str(self) -> &'static str {
        match self {
            JobGroup::Type => "type",
            JobGroup::Queue => "queue",
            JobGroup::Status => "status",
            JobGroup::Day => "day",
        }
    }
}

/// The steps in which what came and went is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowStep {
    /// Hours of UTC.
    Hour,
    /// Days of UTC.
    Day,
}

impl FlowStep {
    /// Its name in SQL.
    pub fn as_str(self) -> &'static str {
        match self {
            FlowStep::Hour => "hour",
            FlowStep::Day => "day",
        }
    }
}

/// From when to when; by default the day before now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// From here on; `None` means a day before the end.
    pub from: Option<Timestamp>,
    /// Up to here; `None` means now.
    pub to: Option<Timestamp>,
}

/// How much a count may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountBounds {
    /// About how many jobs are read, the newest first.
    pub limit: i32,
    /// How long it may take.
    pub budget_ms: i32,
}

/// Jobs of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobCount {
    /// The type, queue, status or day.
    pub key: String,
    /// All of them.
    pub jobs: i64,
    /// Wait, due or not.
    pub waiting: i64,
    /// Are running.
    pub running: i64,
    /// Succeeded.
    pub succeeded: i64,
    /// Failed for good.
    pub failed: i64,
    /// Used up their attempts.
    pub dead: i64,
    /// Were canceled.
    pub canceled: i64,
    /// How long the last attempt of those that succeeded took, on average.
    pub mean_seconds: Option<f64>,
}

/// What came and went in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FlowCount {
    /// The hour or day.
    pub key: String,
    /// Came.
    pub enqueued: i64,
    /// Succeeded.
    pub succeeded: i64,
    /// Became dead letters.
    pub failed: i64,
    /// Were canceled.
    pub canceled: i64,
    /// Whether there was too much to count all of it.
    pub estimated: bool,
}

/// Counts, and what they are of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counted<T> {
    /// The groups, in the order of their keys.
    pub groups: Vec<T>,
    /// When they were counted.
    pub at: Timestamp,
    /// The period's beginning.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// Whether all of the period was counted.
    pub complete: bool,
}

/// The jobs that the tenant of a running job made in a period, by what they are now.
pub async fn count_jobs<C: GenericClient>(
    c: &C,
    (lease, job): (Uuid, JobRef),
    group_by: JobGroup,
    period: Period,
    bounds: CountBounds,
) -> Result<Counted<JobCount>, Error> {
    const OPERATION: &str = "count_jobs";
    let rows = c
        .query_typed(
            "select n.key, n.jobs, n.waiting, n.running, n.succeeded, n.failed, n.dead, n.canceled, n.mean_seconds,
               n.at, n.from_at, n.to_at, n.complete
             from jobforge.count_jobs(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3, p_fence => $4,
               p_group_by => $5, p_from => $6, p_to => $7, p_limit => $8, p_budget_ms => $9) as n",
            &[
                (&lease, Type::UUID),
                (&job.tenant_id, Type::UUID),
                (&job.id, Type::UUID),
                (&job.fence, Type::INT4),
                (&group_by.as_str(), Type::TEXT),
                (&period.from, Type::TIMESTAMPTZ),
                (&period.to, Type::TIMESTAMPTZ),
                (&bounds.limit, Type::INT4),
                (&bounds.budget_ms, Type::INT4),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let read = |columns: &mut Columns<'_>| {
        Ok(JobCount {
            key: columns.take()?,
            jobs: columns.take()?,
            waiting: columns.take()?,
            running: columns.take()?,
            succeeded: columns.take()?,
            failed: columns.take()?,
            dead: columns.take()?,
            canceled: columns.take()?,
            mean_seconds: columns.take()?,
        })
    };
    read_counted(OPERATION, &rows, 9, read)
}

/// What came and went in a period for the tenant of a running job, as the samples have it.
pub async fn count_flow<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    step: FlowStep,
    period: Period,
) -> Result<Counted<FlowCount>, Error> {
    const OPERATION: &str = "count_flow";
    let rows = c
        .query_typed(
            "select n.key, n.enqueued, n.succeeded, n.failed, n.canceled, n.estimated, n.at, n.from_at, n.to_at, n.complete
             from jobforge.count_flow(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3, p_fence => $4,
               p_group_by => $5, p_from => $6, p_to => $7) as n",
            &[
                (&lease, Type::UUID),
                (&job.tenant_id, Type::UUID),
                (&job.id, Type::UUID),
                (&job.fence, Type::INT4),
                (&step.as_str(), Type::TEXT),
                (&period.from, Type::TIMESTAMPTZ),
                (&period.to, Type::TIMESTAMPTZ),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let read = |columns: &mut Columns<'_>| {
        Ok(FlowCount {
            key: columns.take()?,
            enqueued: columns.take()?,
            succeeded: columns.take()?,
            failed: columns.take()?,
            canceled: columns.take()?,
            estimated: columns.take()?,
        })
    };
    read_counted(OPERATION, &rows, 6, read)
}

/// The groups, and the last row, which tells of all of them behind the columns of a group.
fn read_counted<T>(
    operation: &'static str,
    rows: &[Row],
    columns: usize,
    read: impl Fn(&mut Columns<'_>) -> Result<T, Error>,
) -> Result<Counted<T>, Error> {
    let (last, groups) = rows.split_last().ok_or_else(|| Error::shape(operation, "no last row"))?;
    let mut told = Columns::of(operation, last).skip(columns);
    Ok(Counted {
        groups: groups.iter().map(|row| read(&mut Columns::of(operation, row))).collect::<Result<_, _>>()?,
        at: told.take()?,
        from: told.take()?,
        to: told.take()?,
        complete: told.take()?,
    })
}
