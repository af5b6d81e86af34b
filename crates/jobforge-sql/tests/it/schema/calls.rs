//! The SQL functions of a job's life as typed calls, for tests that need a job in a certain state.
//!
//! They return the server's errors: what is refused is as interesting as what is not.

use serde_json::{Value, json};
use tokio_postgres::types::Json;
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;

use super::{NOOP, OTHER, QUEUE};

/// A claimed job with the tokens that its reports must carry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) lease_id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) id: Uuid,
    pub(crate) fence: i32,
    pub(crate) kind: String,
    pub(crate) priority: i16,
    pub(crate) claim_no: i64,
    pub(crate) failures: i32,
    pub(crate) deaths: i16,
    pub(crate) solo: bool,
    pub(crate) payload: Value,
    /// The row's place as text, to be cast back to `tid`.
    pub(crate) locator: String,
}

/// A claim's whole answer; all but lease and jobs stands in its last row.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) lease_id: Uuid,
    pub(crate) jobs: Vec<Held>,
    pub(crate) turn: Option<Uuid>,
    pub(crate) more: bool,
    /// Limits hold work back.
    pub(crate) limited: bool,
    /// What the tenant of `turn` has left of its visit.
    pub(crate) owed: Option<i32>,
    /// When a rate lets more start, in seconds since 1970.
    pub(crate) retry_at: Option<f64>,
}

/// What a claim may be told beyond its worker and limit.
#[derive(Debug, Clone)]
pub(crate) struct ClaimOptions {
    pub(crate) queues: Vec<&'static str>,
    pub(crate) types: Vec<&'static str>,
    pub(crate) lease_id: Option<Uuid>,
    pub(crate) lease_seconds: i32,
    pub(crate) window: Option<i32>,
    pub(crate) cursor: Option<Value>,
    /// How many jobs under a limit it may have; without it, as many as it asks for.
    pub(crate) free: Option<i32>,
    /// Whether the jobs will be over at once.
    pub(crate) quick: bool,
}

impl Default for ClaimOptions {
    fn default() -> ClaimOptions {
        ClaimOptions {
            queues: vec![QUEUE],
            types: vec![NOOP, OTHER],
            lease_id: None,
            lease_seconds: 30,
            window: None,
            cursor: None,
            free: None,
            quick: false,
        }
    }
}

/// Sets the tenant of this connection, until it is set again.
pub(crate) async fn act_for(client: &Client, tenant: Uuid) -> Result<(), Error> {
    client
        .execute("select set_config('app.tenant_id', $1::text, false)", &[&tenant.to_string()])
        .await
        .map(drop)
}

/// Enqueues one job for a tenant, acting for it, and returns its id.
pub(crate) async fn enqueue(
    client: &Client,
    tenant: Uuid,
    kind: &str,
    payload: Value,
) -> Result<Uuid, Error> {
    act_for(client, tenant).await?;
    let sql = "select id from jobforge.enqueue_job($1, $2, $3)";
    client.query_one(sql, &[&tenant, &kind, &Json(payload)]).await.map(|row| row.get(0))
}

/// Enqueues one job with further named arguments given as SQL, e.g. `p_priority => 20`; returns its id and whether
/// it existed already.
pub(crate) async fn enqueue_with(
    client: &Client,
    tenant: Uuid,
    kind: &str,
    extra: &str,
) -> Result<(Uuid, bool), Error> {
    act_for(client, tenant).await?;
    let sql = format!("select id, existing from jobforge.enqueue_job($1, $2, {extra})");
    client.query_one(&sql, &[&tenant, &kind]).await.map(|row| (row.get(0), row.get(1)))
}

/// Enqueues `count` jobs `{"n": 0}`, `{"n": 1}`, … in one batch and returns their ids in order.
pub(crate) async fn enqueue_many(
    client: &Client,
    tenant: Uuid,
    kind: &str,
    count: i32,
) -> Result<Vec<Uuid>, Error> {
    act_for(client, tenant).await?;
    let payloads: Vec<Json<Value>> = (0..count).map(|n| Json(json!({ "n": n }))).collect();
    let kinds = vec![kind; payloads.len()];
    let sql = "select id from jobforge.enqueue_jobs($1, $2, $3) order by at";
    let rows = client.query(sql, &[&tenant, &kinds, &payloads]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Claims jobs of both test types from the test queue, on a lease of its own.
pub(crate) async fn claim(client: &Client, worker: &str, limit: i32) -> Result<Vec<Held>, Error> {
    Ok(claim_with(client, worker, limit, ClaimOptions::default()).await?.jobs)
}

/// Claims as told.
pub(crate) async fn claim_with(
    client: &Client,
    worker: &str,
    limit: i32,
    o: ClaimOptions,
) -> Result<Claim, Error> {
    let sql =
        "select lease_id, tenant_id, id, fence, type, priority, claim_no, failures, deaths, solo, payload,
                      locator::text, turn, more, limited, owed, extract(epoch from retry_at)::float8
               from jobforge.claim_jobs($1, $2, $3, $4, $5, $6, $7, $8, p_free => $9, p_quick => $10)";
    let cursor = o.cursor.map(Json);
    let rows = client
        .query(
            sql,
            &[
                &worker,
                &o.queues,
                &o.types,
                &limit,
                &o.lease_id,
                &o.lease_seconds,
                &o.window,
                &cursor,
                &o.free,
                &o.quick,
            ],
        )
        .await?;
    let (last, jobs) = rows.split_last().expect("a claim answers with one row at least");
    Ok(Claim {
        lease_id: last.get(0),
        jobs: jobs.iter().map(held).collect(),
        turn: last.get(12),
        more: last.get(13),
        limited: last.get(14),
        owed: last.get(15),
        retry_at: last.get(16),
    })
}

fn held(row: &Row) -> Held {
    Held {
        lease_id: row.get(0),
        tenant_id: row.get(1),
        id: row.get(2),
        fence: row.get(3),
        kind: row.get(4),
        priority: row.get(5),
        claim_no: row.get(6),
        failures: row.get(7),
        deaths: row.get(8),
        solo: row.get(9),
        payload: row.get::<_, Json<Value>>(10).0,
        locator: row.get(11),
    }
}

/// Completes one job; the answer is `done` or `already`.
pub(crate) async fn complete(client: &Client, job: &Held) -> Result<String, Error> {
    let sql = "select jobforge.complete_job($1, $2, $3, $4, $5)";
    let result = Json(json!({ "ok": true }));
    let row = client.query_one(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &result]).await?;
    Ok(row.get(0))
}

/// Completes jobs of one lease in a batch; a verdict per job, in order.
pub(crate) async fn complete_many(client: &Client, jobs: &[Held]) -> Result<Vec<String>, Error> {
    let (tenants, ids, fences) = columns(jobs);
    let sql = "select verdict from jobforge.complete_jobs($1, $2, $3, $4) order by at";
    let rows = client.query(sql, &[&jobs[0].lease_id, &tenants, &ids, &fences]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Fails one job as `retryable`, `permanent` or `canceled`; the verdict and the job's new status.
pub(crate) async fn fail(
    client: &Client,
    job: &Held,
    class: &str,
) -> Result<(String, Option<String>), Error> {
    let sql = "select verdict, status from jobforge.fail_job($1, $2, $3, $4, $5, 'told to fail')";
    let row = client.query_one(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &class]).await?;
    Ok((row.get(0), row.get(1)))
}

/// Beats for a lease and these jobs; answers which of them have a problem (`lost`, `canceled`).
pub(crate) async fn beat(
    client: &Client,
    lease_id: Uuid,
    jobs: &[Held],
) -> Result<Vec<(Uuid, String)>, Error> {
    let (tenants, ids, fences) = columns(jobs);
    let sql = "select id, problem from jobforge.heartbeat($1, $2, $3, $4) where id is not null";
    let rows = client.query(sql, &[&lease_id, &tenants, &ids, &fences]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Gives one job back; its verdict.
pub(crate) async fn release(client: &Client, job: &Held) -> Result<String, Error> {
    let sql =
        "select verdict from jobforge.release_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer])";
    let row = client.query_one(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence]).await?;
    Ok(row.get(0))
}

/// Gives back all that a lease holds and ends it.
pub(crate) async fn release_all(client: &Client, lease_id: Uuid) -> Result<(), Error> {
    client.query("select * from jobforge.release_jobs($1)", &[&lease_id]).await.map(drop)
}

/// Puts one job off by a number of seconds.
pub(crate) async fn snooze(client: &Client, job: &Held, seconds: f64) -> Result<(), Error> {
    let sql = "select jobforge.snooze_job($1, $2, $3, $4, $5)";
    client.query_one(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &seconds]).await.map(drop)
}

/// Takes or keeps the leadership under a name; the term.
pub(crate) async fn lead(operator: &Client, holder: &str) -> Result<i64, Error> {
    operator.query_one("select term from jobforge.lead($1)", &[&holder]).await.map(|row| row.get(0))
}

fn columns(jobs: &[Held]) -> (Vec<Uuid>, Vec<Uuid>, Vec<i32>) {
    (
        jobs.iter().map(|job| job.tenant_id).collect(),
        jobs.iter().map(|job| job.id).collect(),
        jobs.iter().map(|job| job.fence).collect(),
    )
}
