//! Inspect: what an operator's examination asks of leader, leases, limits and pauses. Nothing is changed.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::pause::PauseKind;
use super::wire::Columns;
use crate::error::Error;

/// A lease that ran out and was not reaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StuckLease {
    /// The lease.
    pub lease_id: Uuid,
    /// Whose it was.
    pub worker_id: Option<String>,
    /// Where that worker ran.
    pub host: Option<String>,
    /// When it ran out.
    pub expires_at: Timestamp,
    /// How many jobs it was given.
    pub jobs: i32,
}

/// A job that runs on a lease which is gone: no reaper takes it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StrandedJob {
    /// Whose.
    pub tenant_id: Uuid,
    /// Which.
    pub id: Uuid,
    /// Of which type.
    pub job_type: String,
    /// The lease that is gone.
    pub lease_id: Uuid,
    /// When its attempt began.
    pub started_at: Option<Timestamp>,
}

/// What was found of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stranded {
    /// The jobs.
    pub jobs: Vec<StrandedJob>,
    /// Whether all jobs were looked at.
    pub complete: bool,
}

/// A limit that is full while due work waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Starved {
    /// `tenant` or `definition`.
    pub kind: PauseKind,
    /// Which one.
    pub name: String,
    /// `max_in_flight` or `rate`.
    pub limit_name: String,
    /// What the limit allows.
    pub allowed: f64,
    /// Since when the oldest job waits.
    pub waits_since: Timestamp,
}

/// An old pause that holds due work back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForgottenPause {
    /// Of what kind.
    pub kind: PauseKind,
    /// Of which one.
    pub name: String,
    /// Why.
    pub reason: String,
    /// By whose hand.
    pub author: String,
    /// Since when.
    pub paused_at: Timestamp,
    /// Since when the oldest job waits.
    pub waits_since: Timestamp,
}

/// Leases that ran out longer ago than this and were not reaped, the longest first.
pub async fn list_stuck_leases<C: GenericClient>(
    c: &C,
    overdue: Duration,
    limit: i32,
) -> Result<Vec<StuckLease>, Error> {
    const OPERATION: &str = "list_stuck_leases";
    let sql = "select l.lease_id, l.worker_id, l.host, l.expires_at, l.jobs from jobforge.list_stuck_leases(
                 p_overdue => make_interval(secs => $1), p_limit => $2) as l";
    list(c, (OPERATION, sql), (overdue, limit), |columns| {
        Ok(StuckLease {
            lease_id: columns.take()?,
            worker_id: columns.take()?,
            host: columns.take()?,
            expires_at: columns.take()?,
            jobs: columns.take()?,
        })
    })
    .await
}

/// Jobs whose lease is gone, as far as they are found within this time.
pub async fn list_stranded<C: GenericClient>(c: &C, budget: Duration, limit: i32) -> Result<Stranded, Error> {
    const OPERATION: &str = "list_stranded";
    let sql = "select s.complete, s.tenant_id, s.id, s.type, s.lease_id, s.started_at
               from jobforge.list_stranded(p_budget_ms => $1, p_limit => $2) as s";
    let budget = i32::try_from(budget.as_millis()).unwrap_or(i32::MAX);
    let rows = c
        .query_typed(sql, &[(&budget, Type::INT4), (&limit, Type::INT4)])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let (last, found) = rows.split_last().ok_or_else(|| Error::shape(OPERATION, "no rows"))?;
    let jobs = found.iter().map(|row| {
        let mut columns = Columns::of(OPERATION, row).skip(1);
        Ok(StrandedJob {
            tenant_id: columns.take()?,
            id: columns.take()?,
            job_type: columns.take()?,
            lease_id: columns.take()?,
            started_at: columns.take()?,
        })
    });
    Ok(Stranded { jobs: jobs.collect::<Result<_, Error>>()?, complete: Columns::of(OPERATION, last).take()? })
}

/// Limits that are full now while due work has waited for longer than this.
pub async fn list_starved<C: GenericClient>(
    c: &C,
    waiting: Duration,
    limit: i32,
) -> Result<Vec<Starved>, Error> {
    const OPERATION: &str = "list_starved";
    let sql = "select s.kind, s.name, s.limit_name, s.allowed, s.waits_since from jobforge.list_starved(
                 p_waiting => make_interval(secs => $1), p_limit => $2) as s";
    list(c, (OPERATION, sql), (waiting, limit), |columns| {
        Ok(Starved {
            kind: PauseKind::parse(OPERATION, columns.take()?)?,
            name: columns.take()?,
            limit_name: columns.take()?,
            allowed: columns.take()?,
            waits_since: columns.take()?,
        })
    })
    .await
}

/// Pauses older than this that hold due work back, the oldest first.
pub async fn list_forgotten_pauses<C: GenericClient>(
    c: &C,
    age: Duration,
    limit: i32,
) -> Result<Vec<ForgottenPause>, Error> {
    const OPERATION: &str = "list_forgotten_pauses";
    let sql = "select p.kind, p.name, p.reason, p.author, p.paused_at, p.waits_since
               from jobforge.list_forgotten_pauses(p_age => make_interval(secs => $1), p_limit => $2) as p";
    list(c, (OPERATION, sql), (age, limit), |columns| {
        Ok(ForgottenPause {
            kind: PauseKind::parse(OPERATION, columns.take()?)?,
            name: columns.take()?,
            reason: columns.take()?,
            author: columns.take()?,
            paused_at: columns.take()?,
            waits_since: columns.take()?,
        })
    })
    .await
}

/// All three lists are asked in one way: an age and the most rows.
async fn list<C: GenericClient, T>(
    c: &C,
    (operation, sql): (&'static str, &str),
    (age, limit): (Duration, i32),
    read: impl Fn(&mut Columns<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&age.as_secs_f64(), Type::FLOAT8), (&limit, Type::INT4)];
    let rows = c.query_typed(sql, &params).await.map_err(|error| Error::call(operation, error))?;
    rows.iter().map(|row: &Row| read(&mut Columns::of(operation, row))).collect()
}
