//! Look: one job, a page of jobs, a job's attempts.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::job::Payload;
use super::payload;
use super::wire::{Columns, Json};
use crate::error::Error;

/// Everything about one job.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// The job.
    pub id: Uuid,
    /// The key of its definition.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its queue.
    pub queue: String,
    /// Smaller is sooner.
    pub priority: i32,
    /// `blocked`, `queued`, `running`, `succeeded`, `failed`, `dead` or `canceled`.
    pub status: String,
    /// When it is or was due.
    pub run_at: Timestamp,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// The number of its last attempt.
    pub attempt: i32,
    /// How often it failed.
    pub failures: i32,
    /// How often its worker was lost.
    pub deaths: i32,
    /// How often it may fail.
    pub max_attempts: i32,
    /// How long its history is kept.
    pub retention: String,
    /// What no other living job has.
    pub dedupe_key: Option<String>,
    /// Beside how many jobs of this key it may run, its definition says.
    pub concurrency_key: Option<String>,
    /// What ties it to other records.
    pub correlation_id: Option<String>,
    /// The trace it belongs to.
    pub traceparent: Option<String>,
    /// Labels, a JSON array.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub tags: Option<Payload>,
    /// What kind of thing made it.
    pub source: String,
    /// What made it.
    pub source_ref: Option<String>,
    /// Who made it.
    pub created_by: Option<String>,
    /// The job it descends from.
    pub parent_id: Option<Uuid>,
    /// The worker of its last attempt.
    pub worker_id: Option<String>,
    /// Whether its worker was asked to stop it.
    pub cancel_requested: bool,
    /// What went wrong last.
    pub error: Option<String>,
    /// What it was given.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Payload,
    /// What it gave back.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Payload>,
    /// How far it is.
    pub progress_percent: Option<f32>,
    /// What it says about that.
    pub progress_message: Option<String>,
}

/// Which jobs to list.
#[derive(Clone, Debug)]
pub struct JobFilter {
    /// Any of these; `None` means all.
    pub statuses: Option<Vec<String>>,
    /// Of this type.
    pub job_type: Option<String>,
    /// In this queue.
    pub queue: Option<String>,
    /// Of this source.
    pub source: Option<String>,
    /// Enqueued at or after.
    pub created_after: Option<Timestamp>,
    /// Enqueued before.
    pub created_before: Option<Timestamp>,
    /// The most jobs of the page, 1 to 1000.
    pub limit: i32,
    /// Where the page before ended.
    pub cursor: Option<Uuid>,
    /// How long the search may take.
    pub budget_ms: i32,
    /// With this label.
    pub tag: Option<String>,
    /// Whose payload, as it is shown, contains this JSON.
    pub payload: Option<Payload>,
}

impl Default for JobFilter {
    fn default() -> JobFilter {
        JobFilter {
            statuses: None,
            job_type: None,
            queue: None,
            source: None,
            created_after: None,
            created_before: None,
            limit: 50,
            cursor: None,
            budget_ms: 500,
            tag: None,
            payload: None,
        }
    }
}

/// One line of a list.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// The job.
    pub id: Uuid,
    /// The key of its definition.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its queue.
    pub queue: String,
    /// Smaller is sooner.
    pub priority: i32,
    /// Its status.
    pub status: String,
    /// When it is or was due.
    pub run_at: Timestamp,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// The number of its last attempt.
    pub attempt: i32,
    /// How often it failed.
    pub failures: i32,
    /// How often it may fail.
    pub max_attempts: i32,
    /// What kind of thing made it.
    pub source: String,
    /// What ties it to other records.
    pub correlation_id: Option<String>,
    /// Labels, a JSON array.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub tags: Option<Payload>,
    /// What went wrong last.
    pub error: Option<String>,
}

/// Jobs, newest first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page {
    /// The jobs.
    pub jobs: Vec<JobSummary>,
    /// Where the next page starts, if there may be one.
    pub next_cursor: Option<Uuid>,
    /// Whether the search did not run out of its time: if it did, the page is a partial one.
    pub complete: bool,
}

/// One attempt of a job.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Its number, the fence of its reports.
    pub number: i32,
    /// `running`, `succeeded`, `failed`, `timeout`, `canceled` or `lost`.
    pub status: String,
    /// Who ran it.
    pub worker_id: Option<String>,
    /// The process that ran it: that of the program it started, else the worker's.
    pub pid: Option<i32>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// `retryable` or `permanent`.
    pub error_class: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Of a program that ran.
    pub exit_code: Option<i32>,
    /// That ended the program.
    pub signal: Option<i32>,
    /// The end of what the program printed.
    pub stdout_tail: Option<String>,
    /// The end of what it complained.
    pub stderr_tail: Option<String>,
    /// Its log lines: an array of objects with `at`, `level` and `message`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub log: Option<Payload>,
}

/// Everything about one job, live or over.
pub async fn get_job<C: GenericClient>(c: &C, tenant: Uuid, id: Uuid) -> Result<Job, Error> {
    const OPERATION: &str = "get_job";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select j.id, j.type, j.queue, j.priority, j.status, j.run_at, j.created_at, j.started_at,
               j.finished_at, j.attempt, j.failures, j.deaths, j.max_attempts, j.retention, j.dedupe_key, j.concurrency_key,
               j.correlation_id, j.traceparent, j.tags, j.source, j.source_ref, j.created_by, j.parent_id,
               j.worker_id, j.cancel_requested, j.error, j.payload, j.result, j.progress_percent,
               j.progress_message
             from t cross join lateral jobforge.get_job(p_tenant_id => t.tenant::uuid, p_job_id => $2) as j",
            &[(&tenant, Type::UUID), (&id, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_job(&mut Columns::of(OPERATION, &row))
}

/// A page of a tenant's jobs, newest first.
pub async fn list_jobs<C: GenericClient>(c: &C, tenant: Uuid, filter: &JobFilter) -> Result<Page, Error> {
    const OPERATION: &str = "list_jobs";
    payload::check(OPERATION, filter.payload.as_ref(), "payload_malformed", "the payload to look for")?;
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select j.id, j.type, j.queue, j.priority, j.status, j.run_at, j.created_at, j.started_at,
               j.finished_at, j.attempt, j.failures, j.max_attempts, j.source, j.correlation_id, j.tags,
               j.error, j.next_cursor, j.complete
             from t cross join lateral jobforge.list_jobs(p_tenant_id => t.tenant::uuid, p_statuses => $2,
               p_type => $3, p_queue => $4, p_source => $5, p_created_after => $6, p_created_before => $7,
               p_limit => $8, p_cursor => $9, p_budget_ms => $10, p_tag => $11, p_payload => $12) as j",
            &[
                (&tenant, Type::UUID),
                (&filter.statuses, Type::TEXT_ARRAY),
                (&filter.job_type, Type::TEXT),
                (&filter.queue, Type::TEXT),
                (&filter.source, Type::TEXT),
                (&filter.created_after, Type::TIMESTAMPTZ),
                (&filter.created_before, Type::TIMESTAMPTZ),
                (&filter.limit, Type::INT4),
                (&filter.cursor, Type::UUID),
                (&filter.budget_ms, Type::INT4),
                (&filter.tag, Type::TEXT),
                (&filter.payload.as_ref().map(Json::from), Type::JSONB),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let (end, rows) = rows.split_last().ok_or_else(|| Error::shape(OPERATION, "no rows"))?;
    let jobs =
        rows.iter().map(|row| read_summary(&mut Columns::of(OPERATION, row))).collect::<Result<_, _>>()?;
    let mut columns = Columns::of(OPERATION, end).skip(16);
    Ok(Page { jobs, next_cursor: columns.take()?, complete: columns.take()? })
}

/// A job's attempts in their order.
pub async fn list_attempts<C: GenericClient>(c: &C, tenant: Uuid, id: Uuid) -> Result<Vec<Attempt>, Error> {
    const OPERATION: &str = "list_attempts";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select a.number, a.status, a.worker_id, a.pid, a.started_at, a.finished_at, a.error_class,
               a.error, a.exit_code, a.signal, a.stdout_tail, a.stderr_tail, a.log
             from t cross join lateral
               jobforge.list_attempts(p_tenant_id => t.tenant::uuid, p_job_id => $2) as a",
            &[(&tenant, Type::UUID), (&id, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row: &Row| read_attempt(&mut Columns::of(OPERATION, row))).collect()
}

fn read_job(columns: &mut Columns<'_>) -> Result<Job, Error> {
    Ok(Job {
        id: columns.take()?,
        job_type: columns.take()?,
        queue: columns.take()?,
        priority: columns.take()?,
        status: columns.take()?,
        run_at: columns.take()?,
        created_at: columns.take()?,
        started_at: columns.take()?,
        finished_at: columns.take()?,
        attempt: columns.take()?,
        failures: columns.take()?,
        deaths: columns.take()?,
        max_attempts: columns.take()?,
        retention: columns.take()?,
        dedupe_key: columns.take()?,
        concurrency_key: columns.take()?,
        correlation_id: columns.take()?,
        traceparent: columns.take()?,
        tags: columns.json_opt()?,
        source: columns.take()?,
        source_ref: columns.take()?,
        created_by: columns.take()?,
        parent_id: columns.take()?,
        worker_id: columns.take()?,
        cancel_requested: columns.take()?,
        error: columns.take()?,
        payload: columns.json()?,
        result: columns.json_opt()?,
        progress_percent: columns.take()?,
        progress_message: columns.take()?,
    })
}

fn read_summary(columns: &mut Columns<'_>) -> Result<JobSummary, Error> {
    Ok(JobSummary {
        id: columns.take()?,
        job_type: columns.take()?,
        queue: columns.take()?,
        priority: columns.take()?,
        status: columns.take()?,
        run_at: columns.take()?,
        created_at: columns.take()?,
        started_at: columns.take()?,
        finished_at: columns.take()?,
        attempt: columns.take()?,
        failures: columns.take()?,
        max_attempts: columns.take()?,
        source: columns.take()?,
        correlation_id: columns.take()?,
        tags: columns.json_opt()?,
        error: columns.take()?,
    })
}

fn read_attempt(columns: &mut Columns<'_>) -> Result<Attempt, Error> {
    Ok(Attempt {
        number: columns.take()?,
        status: columns.take()?,
        worker_id: columns.take()?,
        pid: columns.take()?,
        started_at: columns.take()?,
        finished_at: columns.take()?,
        error_class: columns.take()?,
        error: columns.take()?,
        exit_code: columns.take()?,
        signal: columns.take()?,
        stdout_tail: columns.take()?,
        stderr_tail: columns.take()?,
        log: columns.json_opt()?,
    })
}
