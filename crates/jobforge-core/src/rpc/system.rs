//! The state of the system itself, for operators.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::job::Payload;
use super::wire::Columns;
use crate::error::Error;

/// Who leads, what is alive, how many of everything.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SystemState {
    /// The scheduler that led last.
    pub leader_holder: String,
    /// Its term.
    pub leader_term: i64,
    /// When its leadership ends unless it is kept; `None` after it resigned.
    pub leader_expires_at: Option<Timestamp>,
    /// When any scheduler was last heard of.
    pub leader_alive_at: Timestamp,
    /// Whether somebody leads now.
    pub leads: bool,
    /// The start of the database server that the schedulers saw last.
    pub server_started_at: Timestamp,
    /// Leases that are alive.
    pub live_leases: i64,
    /// Leases that wait for the reaper.
    pub expired_leases: i64,
    /// The longest silence of a living lease.
    pub oldest_beat_at: Option<Timestamp>,
    /// Workers heard of in the last 90 seconds.
    pub live_workers: i64,
    /// Workers that went silent without stopping.
    pub silent_workers: i64,
    /// Workers that sleep.
    pub sleepers: i64,
    /// Tenants.
    pub tenants: i64,
    /// Pauses that hold something.
    pub pauses: i64,
    /// When the last sample was taken.
    pub sampled_at: Option<Timestamp>,
    /// The leases, the longest silent first: an array of objects with `lease_id`, `worker_id`, `last_beat_at`, ….
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub leases: Payload,
}

/// The state of the system, with at most `limit` leases.
pub async fn system_state<C: GenericClient>(c: &C, limit: i32) -> Result<SystemState, Error> {
    const OPERATION: &str = "system_state";
    let row = c
        .query_typed_one(
            "select s.leader_holder, s.leader_term,
               case when isfinite(s.leader_expires_at) then s.leader_expires_at end, s.leader_alive_at, s.leads,
               s.server_started_at, s.live_leases, s.expired_leases, s.oldest_beat_at, s.live_workers,
               s.silent_workers, s.sleepers, s.tenants, s.pauses, s.sampled_at, s.leases
             from jobforge.system_state(p_limit => $1) as s",
            &[(&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(SystemState {
        leader_holder: columns.take()?,
        leader_term: columns.take()?,
        leader_expires_at: columns.take()?,
        leader_alive_at: columns.take()?,
        leads: columns.take()?,
        server_started_at: columns.take()?,
        live_leases: columns.take()?,
        expired_leases: columns.take()?,
        oldest_beat_at: columns.take()?,
        live_workers: columns.take()?,
        silent_workers: columns.take()?,
        sleepers: columns.take()?,
        tenants: columns.take()?,
        pauses: columns.take()?,
        sampled_at: columns.take()?,
        leases: columns.json()?,
    })
}
