//! Fail: attempts that did not end well. The database alone decides what becomes of the job.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::job::{JobColumns, JobRef, Verdict};
use super::wire::{Columns, clean, in_order};
use crate::error::Error;

/// The longest wish of a handler; the database refuses more, and one wish would spoil its batch.
const MAX_RETRY_AFTER_MS: i64 = 365 * 86_400_000;

/// What kind of end it was, which is all the worker has to say about a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Worth trying again.
    Retryable,
    /// Never worth trying again.
    Permanent,
    /// Stopped because somebody asked for it.
    Canceled,
}

impl Class {
    fn as_str(self) -> &'static str {
        match self {
            Class::Retryable => "retryable",
            Class::Permanent => "permanent",
            Class::Canceled => "canceled",
        }
    }
}

/// How the attempt is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It failed.
    Failed,
    /// It took too long.
    Timeout,
    /// It was stopped.
    Canceled,
}

impl AttemptEnd {
    fn as_str(self) -> &'static str {
        match self {
            AttemptEnd::Failed => "failed",
            AttemptEnd::Timeout => "timeout",
            AttemptEnd::Canceled => "canceled",
        }
    }
}

/// An attempt that did not end well.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub job: JobRef,
    /// Whether to try again.
    pub class: Class,
    /// What went wrong.
    pub error: String,
    /// Not to be tried again sooner than this.
    pub retry_after: Option<Duration>,
    /// How the attempt is written down.
    pub end: AttemptEnd,
    /// Of a process that ran.
    pub exit_code: Option<i32>,
    /// The end of what the process printed.
    pub stdout_tail: Option<String>,
    /// The end of what it complained.
    pub stderr_tail: Option<String>,
}

/// What became of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Failed {
    /// Whether the report was taken.
    pub verdict: Verdict,
    /// The job's new status, if it was.
    pub status: Option<String>,
    /// When it runs again, if it does.
    pub run_at: Option<Timestamp>,
}

macro_rules! told_of {
    ($before:literal, $lease:literal) => {
        concat!(
            "select f.at, f.verdict, f.status, f.run_at from ",
            $before,
            "jobforge.fail_jobs(p_lease_id => ",
            $lease,
            ", p_tenant_ids => $2, p_job_ids => $3, p_fences => $4, p_classes => $5, p_errors => $6,
               p_retry_after_ms => $7, p_statuses => $8, p_exit_codes => $9, p_stdout_tails => $10,
               p_stderr_tails => $11) as f"
        )
    };
}

const FAIL: &str = told_of!("", "$1");

/// The lock's time is set before the call, because the call needs it, and for this transaction.
const FAIL_UNLOCKED: &str = told_of!(
    "(select set_config('lock_timeout', $12, true) as waits) as s cross join lateral ",
    "case when s.waits is not null then $1 end"
);

/// Ends attempts badly; the answers are in their order.
pub async fn fail_jobs<C: GenericClient>(
    c: &C,
    lease: Uuid,
    failures: &[Failure],
) -> Result<Vec<Failed>, Error> {
    call_batch(c, lease, failures, None).await
}

/// The same, but where somebody else holds one of the jobs locked for longer than this, it is an error that says so
/// (`55P03`), and nothing is done.
pub async fn fail_unlocked<C: GenericClient>(
    c: &C,
    lease: Uuid,
    failures: &[Failure],
    wait: Duration,
) -> Result<Vec<Failed>, Error> {
    call_batch(c, lease, failures, Some(wait)).await
}

async fn call_batch<C: GenericClient>(
    c: &C,
    lease: Uuid,
    failures: &[Failure],
    wait: Option<Duration>,
) -> Result<Vec<Failed>, Error> {
    const OPERATION: &str = "fail_jobs";
    if failures.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: JobColumns = failures.iter().map(|failure| failure.job).collect();
    let texts = |text: fn(&Failure) -> Option<&String>| -> Vec<Option<Cow<'_, str>>> {
        failures.iter().map(|failure| text(failure).map(|text| clean(text))).collect()
    };
    let classes: Vec<&str> = failures.iter().map(|failure| failure.class.as_str()).collect();
    let errors = texts(|failure| Some(&failure.error));
    let ends: Vec<&str> = failures.iter().map(|failure| failure.end.as_str()).collect();
    let waits: Vec<Option<i64>> = failures.iter().map(retry_after_ms).collect();
    let exits: Vec<Option<i32>> = failures.iter().map(|failure| failure.exit_code).collect();
    let stdout = texts(|failure| failure.stdout_tail.as_ref());
    let stderr = texts(|failure| failure.stderr_tail.as_ref());
    let wait = wait.map(|wait| format!("{}ms", wait.as_millis()));
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![
        (&lease, Type::UUID),
        (&jobs.tenant_ids, Type::UUID_ARRAY),
        (&jobs.ids, Type::UUID_ARRAY),
        (&jobs.fences, Type::INT4_ARRAY),
        (&classes, Type::TEXT_ARRAY),
        (&errors, Type::TEXT_ARRAY),
        (&waits, Type::INT8_ARRAY),
        (&ends, Type::TEXT_ARRAY),
        (&exits, Type::INT4_ARRAY),
        (&stdout, Type::TEXT_ARRAY),
        (&stderr, Type::TEXT_ARRAY),
    ];
    parameters.extend(wait.iter().map(|wait| (wait as &(dyn ToSql + Sync), Type::TEXT)));
    let statement = if wait.is_some() { FAIL_UNLOCKED } else { FAIL };
    let rows = c.query_typed(statement, &parameters).await.map_err(|error| Error::call(OPERATION, error))?;
    let answers = rows.iter().map(|row| {
        let mut columns = Columns::of(OPERATION, row);
        Ok((columns.take()?, read_answer(OPERATION, &mut columns)?))
    });
    in_order(OPERATION, failures.len(), answers)
}

/// Ends one attempt badly; a stale or unknown job is an error.
pub async fn fail_job<C: GenericClient>(c: &C, lease: Uuid, failure: &Failure) -> Result<Failed, Error> {
    const OPERATION: &str = "fail_job";
    let row: Row = c
        .query_typed_one(
            "select f.verdict, f.status, f.run_at from jobforge.fail_job(p_lease_id => $1,
               p_tenant_id => $2, p_job_id => $3, p_fence => $4, p_class => $5, p_error => $6,
               p_retry_after_ms => $7, p_status => $8, p_exit_code => $9, p_stdout_tail => $10,
               p_stderr_tail => $11) as f",
            &[
                (&lease, Type::UUID),
                (&failure.job.tenant_id, Type::UUID),
                (&failure.job.id, Type::UUID),
                (&failure.job.fence, Type::INT4),
                (&failure.class.as_str(), Type::TEXT),
                (&clean(&failure.error), Type::TEXT),
                (&retry_after_ms(failure), Type::INT8),
                (&failure.end.as_str(), Type::TEXT),
                (&failure.exit_code, Type::INT4),
                (&failure.stdout_tail.as_deref().map(clean), Type::TEXT),
                (&failure.stderr_tail.as_deref().map(clean), Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_answer(OPERATION, &mut Columns::of(OPERATION, &row))
}

fn read_answer(operation: &'static str, columns: &mut Columns<'_>) -> Result<Failed, Error> {
    Ok(Failed {
        verdict: Verdict::parse(operation, columns.take()?)?,
        status: columns.take()?,
        run_at: columns.take()?,
    })
}

fn retry_after_ms(failure: &Failure) -> Option<i64> {
    let wish = failure.retry_after?;
    Some(i64::try_from(wish.as_millis()).unwrap_or(MAX_RETRY_AFTER_MS).min(MAX_RETRY_AFTER_MS))
}
