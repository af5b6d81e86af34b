//! A tenant at a glance, and each queue across tenants.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::Columns;
use crate::error::Error;

/// A tenant's jobs in numbers. What the samples tell is `None` where nobody samples.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Summary {
    /// Wait for other jobs.
    pub blocked: i64,
    /// Wait for their time.
    pub scheduled: i64,
    /// Are due.
    pub ready: i64,
    /// Are running.
    pub running: i64,
    /// Failed for good.
    pub failed: i64,
    /// Used up their attempts.
    pub dead: i64,
    /// Whether there were too many to count: then these are lower bounds, or the last sample's estimates.
    pub capped: bool,
    /// When the oldest due job was due.
    pub oldest_ready: Option<Timestamp>,
    /// What came and went in the last hour.
    pub hour: Option<Flow>,
    /// What came and went in the last day.
    pub day: Option<Flow>,
    /// Enqueued a second, over the last minutes.
    pub enqueued_rate: Option<f64>,
    /// Succeeded a second, over the last minutes.
    pub completed_rate: Option<f64>,
    /// Became dead letters a second, over the last minutes.
    pub failed_rate: Option<f64>,
    /// How long the due work takes at this pace; `None` where it is unknown or grows.
    pub drain_seconds: Option<f64>,
    /// When the last sample was taken.
    pub sampled_at: Option<Timestamp>,
}

/// What came and went in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Flow {
    /// Came.
    pub enqueued: i64,
    /// Succeeded.
    pub completed: i64,
    /// Became dead letters.
    pub failed: i64,
    /// Were canceled.
    pub canceled: i64,
}

/// A queue across tenants.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueSummary {
    /// The queue.
    pub queue: String,
    /// Waiting, due or not.
    pub queued: i64,
    /// Waiting and due.
    pub ready: i64,
    /// Running.
    pub running: i64,
    /// Dead letters.
    pub dead: i64,
    /// Whether the depths are estimated from a part of the jobs.
    pub estimated: bool,
    /// When the oldest due job was due.
    pub oldest_ready: Option<Timestamp>,
    /// Enqueued a second, over the last minutes.
    pub enqueued_rate: Option<f64>,
    /// Succeeded a second, over the last minutes.
    pub completed_rate: Option<f64>,
    /// Became dead letters a second, over the last minutes.
    pub failed_rate: Option<f64>,
    /// Live workers that serve it.
    pub workers: i64,
    /// How many jobs they can run at a time.
    pub slots: i64,
    /// Workers that sleep for it.
    pub sleepers: i64,
    /// Who paused it.
    pub paused_by: Option<String>,
    /// Why.
    pub pause_reason: Option<String>,
    /// Until when, if the pause ends by itself.
    pub paused_until: Option<Timestamp>,
}

/// A tenant's jobs in numbers; at most `limit` live ones are counted.
pub async fn job_summary<C: GenericClient>(c: &C, tenant: Uuid, limit: i32) -> Result<Summary, Error> {
    const OPERATION: &str = "job_summary";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select s.blocked, s.scheduled, s.ready, s.running, s.failed, s.dead, s.capped, s.oldest_ready,
               s.enqueued_hour, s.completed_hour, s.failed_hour, s.canceled_hour, s.enqueued_day,
               s.completed_day, s.failed_day, s.canceled_day, s.enqueued_rate, s.completed_rate,
               s.failed_rate, s.drain_seconds, s.sampled_at
             from t cross join lateral jobforge.job_summary(p_tenant_id => t.tenant::uuid, p_limit => $2) as s",
            &[(&tenant, Type::UUID), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let columns = &mut Columns::of(OPERATION, &row);
    Ok(Summary {
        blocked: columns.take()?,
        scheduled: columns.take()?,
        ready: columns.take()?,
        running: columns.take()?,
        failed: columns.take()?,
        dead: columns.take()?,
        capped: columns.take()?,
        oldest_ready: columns.take()?,
        hour: read_flow(columns)?,
        day: read_flow(columns)?,
        enqueued_rate: columns.take()?,
        completed_rate: columns.take()?,
        failed_rate: columns.take()?,
        drain_seconds: columns.take()?,
        sampled_at: columns.take()?,
    })
}

/// The queues across tenants, counted over about `limit` live jobs.
pub async fn queue_summary<C: GenericClient>(c: &C, limit: i32) -> Result<Vec<QueueSummary>, Error> {
    const OPERATION: &str = "queue_summary";
    let rows = c
        .query_typed(
            "select q.queue, q.queued, q.ready, q.running, q.dead, q.estimated, q.oldest_ready,
               q.enqueued_rate, q.completed_rate, q.failed_rate, q.workers, q.slots, q.sleepers, q.paused_by,
               q.pause_reason, q.paused_until
             from jobforge.queue_summary(p_limit => $1) as q",
            &[(&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row| read_queue(&mut Columns::of(OPERATION, row))).collect()
}

/// All four are there or none is.
fn read_flow(columns: &mut Columns<'_>) -> Result<Option<Flow>, Error> {
    let [enqueued, completed, failed, canceled]: [Option<i64>; 4] =
        [columns.take()?, columns.take()?, columns.take()?, columns.take()?];
    Ok(enqueued
        .zip(completed)
        .zip(failed.zip(canceled))
        .map(|((enqueued, completed), (failed, canceled))| Flow { enqueued, completed, failed, canceled }))
}

fn read_queue(columns: &mut Columns<'_>) -> Result<QueueSummary, Error> {
    Ok(QueueSummary {
        queue: columns.take()?,
        queued: columns.take()?,
        ready: columns.take()?,
        running: columns.take()?,
        dead: columns.take()?,
        estimated: columns.take()?,
        oldest_ready: columns.take()?,
        enqueued_rate: columns.take()?,
        completed_rate: columns.take()?,
        failed_rate: columns.take()?,
        workers: columns.take()?,
        slots: columns.take()?,
        sleepers: columns.take()?,
        paused_by: columns.take()?,
        pause_reason: columns.take()?,
        paused_until: columns.take()?,
    })
}
