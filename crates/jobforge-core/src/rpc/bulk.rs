//! Operations on many jobs: started once, stepped until they are finished, undone where that makes sense.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::job::Payload;
use super::payload;
use super::redrive::Redrive;
use super::wire::{Columns, Json, clean};
use crate::error::Error;

/// What is done to every job that matches.
#[derive(Clone, Debug)]
pub enum BulkKind {
    /// Dead letters go back to work.
    Redrive(Redrive),
    /// Waiting jobs and dead letters end; running ones are asked to.
    Cancel {
        /// Why: each job's error says it.
        reason: Option<String>,
        /// Only count them.
        dry_run: bool,
    },
}

/// Which jobs an operation is about; what is `None` is not asked, but something must be.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BulkFilter {
    /// Any of these: for a redrive `failed` and `dead`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statuses: Option<Vec<String>>,
    /// Of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Dead letters of this cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// With this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Enqueued at or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Timestamp>,
    /// Enqueued before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Timestamp>,
    /// That died at or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_after: Option<Timestamp>,
    /// That died before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_before: Option<Timestamp>,
}

/// An operation and how far it is.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bulk {
    /// The operation.
    pub id: Uuid,
    /// `redrive` or `cancel`.
    pub kind: String,
    /// `running`, `finished`, `undoing` or `undone`.
    pub status: String,
    /// The login that started it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Which jobs.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub filter: Payload,
    /// How their payloads were edited.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub patch: Option<Payload>,
    /// How often they may fail since.
    pub max_attempts: Option<i32>,
    /// Whether it only counted.
    pub dry_run: bool,
    /// How many matched when it started.
    pub matched: i64,
    /// Whether the count stopped at its bound: there may be more.
    pub matched_capped: bool,
    /// How many it was done to.
    pub done: i64,
    /// How many were skipped, each with a reason.
    pub skipped: i64,
    /// How many were put back by an undo.
    pub undone: i64,
    /// How many an undo left, because they had started.
    pub kept: i64,
    /// When it started.
    pub started_at: Timestamp,
    /// When nothing was left to do.
    pub finished_at: Option<Timestamp>,
    /// When nothing was left to undo.
    pub undone_at: Option<Timestamp>,
}

/// What became of one job of an operation.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkResult {
    /// The operation.
    pub operation_id: Uuid,
    /// The job.
    pub job_id: Uuid,
    /// When.
    pub at: Timestamp,
    /// `redriven`, `canceled`, `cancel_requested`, `skipped`, `undone` or `kept`.
    pub verdict: String,
    /// Why it was skipped or kept: the code.
    pub error_code: Option<String>,
    /// Why it was skipped or kept: the stable reason.
    pub error_reason: Option<String>,
    /// What it was before; with its payload where that was edited.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub before: Option<Payload>,
}

/// Whose results: of an operation by job, or of a job by operation.
#[derive(Clone, Copy, Debug)]
pub enum ResultsOf {
    /// What became of its jobs.
    Operation(Uuid),
    /// What operations did to it.
    Job(Uuid),
}

/// Records an operation and counts what it is about; [`step_bulk`] does it.
pub async fn start_bulk<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    kind: &BulkKind,
    filter: &BulkFilter,
) -> Result<Bulk, Error> {
    const OPERATION: &str = "start_bulk";
    let (name, how) = match kind {
        BulkKind::Redrive(how) => ("redrive", how.clone()),
        BulkKind::Cancel { reason, dry_run } => {
            ("cancel", Redrive { reason: reason.clone(), dry_run: *dry_run, ..Redrive::default() })
        }
    };
    payload::check(OPERATION, how.patch.as_ref(), "patch_malformed", "the patch")?;
    let filter = to_raw_value(filter).map_err(|error| Error::shape(OPERATION, error))?;
    payload::check(OPERATION, Some(&filter), "filter_malformed", "the filter")?;
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select b.* from t cross join lateral jobforge.start_bulk(p_tenant_id => t.tenant::uuid,
               p_kind => $2, p_filter => $3, p_reason => $4, p_patch => $5, p_max_attempts => $6,
               p_dry_run => $7) as b",
            &[
                (&tenant, Type::UUID),
                (&name, Type::TEXT),
                (&Json::from(&filter), Type::JSONB),
                (&how.reason.as_deref().map(clean), Type::TEXT),
                (&how.patch.as_ref().map(Json::from), Type::JSONB),
                (&how.max_attempts, Type::INT4),
                (&how.dry_run, Type::BOOL),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_bulk(OPERATION, &row)
}

/// Does the next `limit` jobs of an operation, in a transaction of its own; called until it no longer runs.
pub async fn step_bulk<C: GenericClient>(c: &C, tenant: Uuid, id: Uuid, limit: i32) -> Result<Bulk, Error> {
    const OPERATION: &str = "step_bulk";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select b.* from t cross join lateral jobforge.step_bulk(p_tenant_id => t.tenant::uuid,
               p_operation_id => $2, p_limit => $3) as b",
            &[(&tenant, Type::UUID), (&id, Type::UUID), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_bulk(OPERATION, &row)
}

/// Undoes the next `limit` jobs of a redrive, as far as they have not started; called until it is undone.
pub async fn undo_bulk<C: GenericClient>(c: &C, tenant: Uuid, id: Uuid, limit: i32) -> Result<Bulk, Error> {
    const OPERATION: &str = "undo_bulk";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select b.* from t cross join lateral jobforge.undo_bulk(p_tenant_id => t.tenant::uuid,
               p_operation_id => $2, p_limit => $3) as b",
            &[(&tenant, Type::UUID), (&id, Type::UUID), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_bulk(OPERATION, &row)
}

/// One operation.
pub async fn get_bulk<C: GenericClient>(c: &C, tenant: Uuid, id: Uuid) -> Result<Bulk, Error> {
    const OPERATION: &str = "get_bulk";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select b.* from t cross join lateral jobforge.get_bulk(p_tenant_id => t.tenant::uuid,
               p_operation_id => $2) as b",
            &[(&tenant, Type::UUID), (&id, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_bulk(OPERATION, &row)
}

/// Operations, the latest first, before one.
pub async fn list_bulks<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    limit: i32,
    before: Option<Uuid>,
) -> Result<Vec<Bulk>, Error> {
    const OPERATION: &str = "list_bulks";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select b.* from t cross join lateral jobforge.list_bulks(p_tenant_id => t.tenant::uuid,
               p_limit => $2, p_before => $3) as b",
            &[(&tenant, Type::UUID), (&limit, Type::INT4), (&before, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row| read_bulk(OPERATION, row)).collect()
}

/// A page of results behind `after`: a job of an operation, an operation of a job.
pub async fn list_bulk_results<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    of: ResultsOf,
    limit: i32,
    after: Option<Uuid>,
) -> Result<Vec<BulkResult>, Error> {
    const OPERATION: &str = "list_bulk_results";
    let (operation, job) = match of {
        ResultsOf::Operation(id) => (Some(id), None),
        ResultsOf::Job(id) => (None, Some(id)),
    };
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select r.operation_id, r.job_id, r.at, r.verdict, r.error_code, r.error_reason, r.before
             from t cross join lateral jobforge.list_bulk_results(p_tenant_id => t.tenant::uuid,
               p_operation_id => $2, p_job_id => $3, p_limit => $4, p_after => $5) as r",
            &[
                (&tenant, Type::UUID),
                (&operation, Type::UUID),
                (&job, Type::UUID),
                (&limit, Type::INT4),
                (&after, Type::UUID),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row| read_result(&mut Columns::of(OPERATION, row))).collect()
}

fn read_bulk(operation: &'static str, row: &Row) -> Result<Bulk, Error> {
    let mut columns = Columns::of(operation, row);
    Ok(Bulk {
        id: columns.take()?,
        kind: columns.take()?,
        status: columns.take()?,
        actor: columns.take()?,
        reason: columns.take()?,
        filter: columns.json()?,
        patch: columns.json_opt()?,
        max_attempts: columns.take()?,
        dry_run: columns.take()?,
        matched: columns.take()?,
        matched_capped: columns.take()?,
        done: columns.take()?,
        skipped: columns.take()?,
        undone: columns.take()?,
        kept: columns.take()?,
        started_at: columns.take()?,
        finished_at: columns.take()?,
        undone_at: columns.take()?,
    })
}

fn read_result(columns: &mut Columns<'_>) -> Result<BulkResult, Error> {
    Ok(BulkResult {
        operation_id: columns.take()?,
        job_id: columns.take()?,
        at: columns.take()?,
        verdict: columns.take()?,
        error_code: columns.take()?,
        error_reason: columns.take()?,
        before: columns.json_opt()?,
    })
}
