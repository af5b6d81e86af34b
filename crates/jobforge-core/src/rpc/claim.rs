//! Claim: take jobs onto a lease, in the order in which they must start.

use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row, Statement};
use uuid::Uuid;

use super::cursor::Cursor;
use super::job::{JobRef, Locator, Payload};
use super::wire::{Columns, Json};
use crate::error::Error;

const OPERATION: &str = "claim_jobs";

const CLAIM: &str =
    "select j.lease_id, j.expires_at, j.id, j.solo, j.claim_no, j.tenant_id, j.fence, j.type, j.queue,
       j.priority, j.run_at, j.failures, j.deaths, j.max_attempts, j.timeout_seconds,
       j.correlation_id, j.traceparent, j.payload, j.locator, j.limited, j.turn, j.owed, j.more,
       j.retry_at
     from jobforge.claim_jobs(p_worker_id => $1, p_queues => $2, p_types => $3, p_limit => $4,
       p_lease_id => $5, p_lease_seconds => $6, p_window => $7, p_cursor => $8,
       p_new_lease_id => $9, p_free => $10, p_quick => $11) as j";
const PARAMETERS: [Type; 11] = [
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4,
    Type::UUID,
    Type::INT4,
    Type::INT4,
    Type::JSONB,
    Type::UUID,
    Type::INT4,
    Type::BOOL,
];

/// For a job whose definition is gone.
const DEFAULT_TIMEOUT_SECONDS: i32 = 300;

/// What a worker asks for.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest<'a> {
    /// The worker, as it registered.
    pub worker_id: &'a str,
    /// Where to look.
    pub queues: &'a [String],
    /// What it can run.
    pub types: &'a [String],
    /// The most jobs to take.
    pub limit: i32,
    /// How many of them can start at once: of work under a limit no more are taken.
    pub free: i32,
    /// The living lease to put them on; without it the database makes one if it hands out anything.
    pub lease_id: Option<Uuid>,
    /// The id for a lease that the claim makes, so that it can be closed though the answer was lost.
    pub new_lease_id: Option<Uuid>,
    /// How long a new lease lives without a beat.
    pub lease_seconds: i32,
    /// How many jobs of the lease may run at once: the rest of a dead worker's buffer goes back free. A living lease is widened to
    /// it with the claim, and never made tighter. Without it a new lease has `limit`, and a living one keeps what it has.
    pub window: Option<i32>,
    /// Whether they will be over at once: then they keep their places in the claim's order, which costs others a step over each
    /// and spares the database much of its work.
    pub quick: bool,
    /// What the last answers left.
    pub cursor: &'a Cursor,
}

/// A job that is the worker's until its lease ends.
#[derive(Clone, Debug)]
pub struct ClaimedJob {
    /// The lease it is on: a job that is under suspicion has one of its own.
    pub lease_id: Uuid,
    /// When that lease ends without a beat.
    pub lease_expires_at: Timestamp,
    /// Whether it killed its worker before and must run beside no other of its kind.
    pub solo: bool,
    /// The number of the claim, by which a beat forgets what is done.
    pub claim_no: i64,
    /// What its reports must name.
    pub job: JobRef,
    /// Its type.
    pub job_type: String,
    /// Its queue.
    pub queue: String,
    /// Its priority.
    pub priority: i16,
    /// When it was due.
    pub run_at: Timestamp,
    /// How often it failed.
    pub failures: i32,
    /// How often its worker was lost.
    pub deaths: i16,
    /// How often it may fail.
    pub max_attempts: i16,
    /// How long one attempt may take.
    pub timeout_seconds: i32,
    /// What ties it to other records.
    pub correlation_id: Option<String>,
    /// The trace it belongs to.
    pub traceparent: Option<String>,
    /// What it was given.
    pub payload: Payload,
    /// Where its row is.
    pub locator: Locator,
    /// Whether it was taken under a limit.
    pub limited: bool,
}

/// A claim's answer.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// In the order in which they must start.
    pub jobs: Vec<ClaimedJob>,
    /// The lease asked for, or the new one: it exists only if a job is on it.
    pub lease_id: Uuid,
    /// When that lease ends without a beat.
    pub expires_at: Timestamp,
    /// The tenant to go on at, if it is owed something, else after.
    pub turn: Option<Uuid>,
    /// How many jobs that tenant's visit has left.
    pub owed: Option<i32>,
    /// Nothing was taken although there is work: others hold it locked.
    pub more: bool,
    /// There is work that a limit holds back.
    pub limited: bool,
    /// When a rate lets more start.
    pub retry_at: Option<Timestamp>,
}

/// The claim's statement, prepared on one connection: it spares each claim its parsing and planning. Not for a
/// connection through a pooler that hands sessions around: there a statement's name may mean another's.
#[derive(Clone)]
pub struct PreparedClaim(Statement);

/// Prepares the claim on this connection.
pub async fn prepare_claim<C: GenericClient>(c: &C) -> Result<PreparedClaim, Error> {
    let prepared = c.prepare_typed(CLAIM, &PARAMETERS).await;
    prepared.map(PreparedClaim).map_err(|error| Error::call(OPERATION, error))
}

/// Takes up to `limit` jobs.
pub async fn claim_jobs<C: GenericClient>(c: &C, request: &ClaimRequest<'_>) -> Result<Claimed, Error> {
    claim_prepared(c, None, request).await
}

/// Claims jobs of a type that none can have: what a session has to read and compile once, which takes as long as thousands of
/// jobs, is done before the first claim that counts.
pub async fn rehearse_claim<C: GenericClient>(
    c: &C,
    worker_id: &str,
    queues: &[String],
) -> Result<(), Error> {
    let request = ClaimRequest {
        worker_id,
        queues,
        types: &[String::new()],
        limit: 1,
        free: 0,
        lease_id: None,
        new_lease_id: None,
        lease_seconds: 1,
        window: Some(1),
        quick: false,
        cursor: &Cursor::of_rehearsal(queues.first().map_or("", String::as_str)),
    };
    claim_jobs(c, &request).await.map(drop)
}

/// The same as a claim, by the statement prepared on this connection if there is one.
pub async fn claim_prepared<C: GenericClient>(
    c: &C,
    prepared: Option<&PreparedClaim>,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, Error> {
    let cursor = request.cursor.to_json();
    let cursor = Json(&cursor);
    let values: [&(dyn ToSql + Sync); 11] = [
        &request.worker_id,
        &request.queues,
        &request.types,
        &request.limit,
        &request.lease_id,
        &request.lease_seconds,
        &request.window,
        &cursor,
        &request.new_lease_id,
        &request.free,
        &request.quick,
    ];
    let rows = match prepared {
        Some(prepared) => c.query(&prepared.0, &values).await,
        None => c.query_typed(CLAIM, &values.into_iter().zip(PARAMETERS).collect::<Vec<_>>()).await,
    };
    let rows = rows.map_err(|error| Error::call(OPERATION, error))?;
    let (end, rows) = rows.split_last().ok_or_else(|| Error::shape(OPERATION, "no rows"))?;
    let jobs = rows.iter().map(read_job).collect::<Result<_, Error>>()?;
    let mut columns = Columns::of(OPERATION, end);
    let (lease_id, expires_at) = (columns.take()?, columns.take()?);
    if columns.take::<Option<Uuid>>()?.is_some() {
        return Err(Error::shape(OPERATION, "the last row is a job"));
    }
    let mut columns = columns.skip(16);
    Ok(Claimed {
        jobs,
        lease_id,
        expires_at,
        limited: columns.take()?,
        turn: columns.take()?,
        owed: columns.take()?,
        more: columns.take()?,
        retry_at: columns.take()?,
    })
}

fn read_job(row: &Row) -> Result<ClaimedJob, Error> {
    let mut columns = Columns::of(OPERATION, row);
    let (lease_id, lease_expires_at, id) = (columns.take()?, columns.take()?, columns.take()?);
    Ok(ClaimedJob {
        lease_id,
        lease_expires_at,
        solo: columns.take()?,
        claim_no: columns.take()?,
        job: JobRef { tenant_id: columns.take()?, id, fence: columns.take()? },
        job_type: columns.take()?,
        queue: columns.take()?,
        priority: columns.take()?,
        run_at: columns.take()?,
        failures: columns.take()?,
        deaths: columns.take()?,
        max_attempts: columns.take()?,
        timeout_seconds: columns.take::<Option<i32>>()?.unwrap_or(DEFAULT_TIMEOUT_SECONDS),
        correlation_id: columns.take()?,
        traceparent: columns.take()?,
        payload: columns.json()?,
        locator: columns.take()?,
        limited: columns.take()?,
    })
}
