//! Workers as the database knows them.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use super::job::Payload;
use super::payload;
use super::wire::{Columns, Json};
use crate::error::{Code, Error};

/// The most bytes of a worker's metadata.
const MAX_METADATA: usize = 16 * 1024;

/// A worker that makes itself known.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Stable while the process lives: `host:pid:boot-uuid`.
    pub worker_id: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: Option<i32>,
    /// The program's version.
    pub version: String,
    /// Where it looks for work.
    pub queues: Vec<String>,
    /// What it can run.
    pub types: Vec<String>,
    /// How many jobs it runs at once.
    pub slots: i32,
    /// Whatever else is worth knowing, a JSON object.
    pub metadata: Option<Payload>,
}

/// A worker as it was last seen.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    /// The worker.
    pub worker_id: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: Option<i32>,
    /// The program's version.
    pub version: String,
    /// Where it looks for work.
    pub queues: Vec<String>,
    /// What it can run.
    pub types: Vec<String>,
    /// How many jobs it runs at once.
    pub slots: i32,
    /// How many it ran at its last beat.
    pub running: i32,
    /// Whatever else it told.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub metadata: Payload,
    /// When it registered first.
    pub started_at: Timestamp,
    /// When it was heard of last.
    pub last_seen: Timestamp,
    /// When it stopped of its own accord.
    pub stopped_at: Option<Timestamp>,
    /// Whether it went silent without stopping.
    pub stale: bool,
}

/// Makes a worker known, or refreshes what is known of it; answers its number.
pub async fn register_worker<C: GenericClient>(c: &C, worker: &Registration) -> Result<i32, Error> {
    const OPERATION: &str = "register_worker";
    if let Some(reason) = worker.metadata.as_ref().and_then(|json| payload::problem(json.get(), MAX_METADATA))
    {
        return Err(Error::Refused {
            operation: OPERATION,
            code: Code::InvalidArgument,
            reason: reason.replace("payload", "metadata"),
            message: format!("the metadata of worker {} cannot be stored", worker.worker_id),
        });
    }
    let row = c
        .query_typed_one(
            "select jobforge.register_worker(p_worker_id => $1, p_host => $2, p_pid => $3, p_version => $4,
               p_queues => $5, p_types => $6, p_slots => $7, p_metadata => $8)",
            &[
                (&worker.worker_id, Type::TEXT),
                (&worker.host, Type::TEXT),
                (&worker.pid, Type::INT4),
                (&worker.version, Type::TEXT),
                (&worker.queues, Type::TEXT_ARRAY),
                (&worker.types, Type::TEXT_ARRAY),
                (&worker.slots, Type::INT4),
                (&worker.metadata.as_ref().map(Json::from), Type::JSONB),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// Notes that a worker stopped of its own accord; false if it is not known.
pub async fn stop_worker<C: GenericClient>(c: &C, worker_id: &str) -> Result<bool, Error> {
    const OPERATION: &str = "stop_worker";
    let sql = "select jobforge.stop_worker(p_worker_id => $1)";
    let row = c
        .query_typed_one(sql, &[(&worker_id, Type::TEXT)])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// The workers, the last seen first.
pub async fn list_workers<C: GenericClient>(c: &C, limit: i32) -> Result<Vec<Worker>, Error> {
    const OPERATION: &str = "list_workers";
    let rows = c
        .query_typed(
            "select w.worker_id, w.host, w.pid, w.version, w.queues, w.types, w.slots, w.running, w.metadata,
               w.started_at, w.last_seen, w.stopped_at, w.stale
             from jobforge.list_workers(p_limit => $1) as w",
            &[(&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row: &Row| read_worker(&mut Columns::of(OPERATION, row))).collect()
}

fn read_worker(columns: &mut Columns<'_>) -> Result<Worker, Error> {
    Ok(Worker {
        worker_id: columns.take()?,
        host: columns.take()?,
        pid: columns.take()?,
        version: columns.take()?,
        queues: columns.take()?,
        types: columns.take()?,
        slots: columns.take()?,
        running: columns.take()?,
        metadata: columns.json()?,
        started_at: columns.take()?,
        last_seen: columns.take()?,
        stopped_at: columns.take()?,
        stale: columns.take()?,
    })
}
