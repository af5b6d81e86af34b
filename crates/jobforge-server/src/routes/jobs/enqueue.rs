//! Enqueue one job, or many.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::try_join_all;
use jiff::Timestamp;
use jobforge_core::{Actor, Code, Enqueued, NewJob, Payload, rpc};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Enqueue, Tenant};
use crate::extract::{Answer, Json, is_array, read_json, read_rows};
use crate::gather::refused;
use crate::openapi::ROOT;
use crate::problem::{ErrorCode, Problem, ProblemBody};

/// The most characters kept of who made a job.
const MOST_AUTHOR: usize = 255;
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The most jobs of an array; the database takes no more.
const MOST_ROWS: usize = 10_000;
/// The members that a reason may begin with.
const MEMBERS: [&str; 14] = [
    "payload",
    "queue",
    "priority",
    "run_at",
    "idempotency_key",
    "dedupe_key",
    "concurrency_key",
    "id",
    "max_attempts",
    "correlation_id",
    "traceparent",
    "tags",
    "source_ref",
    "source",
];

/// A job to be made. What is left out comes from its definition.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobInput {
    /// The key of its definition; `definition_key` is taken too.
    #[serde(rename = "type", alias = "definition_key")]
    #[schema(example = "demo.echo")]
    job_type: String,
    /// What the job is given; it must fit the definition's schema.
    #[schema(value_type = Option<serde_json::Value>, example = json!({"hello": "world"}))]
    payload: Option<Payload>,
    /// The queue it waits in.
    queue: Option<String>,
    /// Smaller is sooner; 10 to 32767.
    #[schema(minimum = 10, maximum = 32767)]
    priority: Option<i32>,
    /// Not before this time; `scheduled_for` is taken too.
    #[serde(alias = "scheduled_for")]
    run_at: Option<Timestamp>,
    /// The same key again is answered with the first job; the header `Idempotency-Key` says the same.
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// A living job of the same key is the answer instead of a new one.
    #[schema(min_length = 1)]
    dedupe_key: Option<String>,
    /// Of jobs with the same key only so many run at once as their definition says.
    #[schema(min_length = 1)]
    concurrency_key: Option<String>,
    /// An id of the caller's own: version 7, of today.
    id: Option<Uuid>,
    /// How often it may fail.
    #[schema(minimum = 1)]
    max_attempts: Option<i32>,
    /// What ties it to other records.
    correlation_id: Option<String>,
    /// The W3C trace context of the caller; the header of this name says the same.
    traceparent: Option<String>,
    /// Labels.
    #[serde(default)]
    tags: Vec<String>,
    /// `manual`, `event`, `schedule`, `system` or `workflow`.
    source: Option<String>,
    /// What in the source made it.
    source_ref: Option<String>,
}

/// One job, or up to 10,000 in an array.
#[derive(ToSchema)]
#[schema(as = EnqueueBody)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "describes the body; a body is read by its first character, so that numbers stay"
)]
pub(crate) enum EnqueueBody {
    One(Box<JobInput>),
    Many(Vec<JobInput>),
}

/// A job that was taken in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TakenIn {
    /// The job.
    id: Uuid,
    /// Whose it is.
    tenant_id: Uuid,
    /// Its type.
    #[serde(rename = "type")]
    job_type: String,
    /// `queued`, or what became of a job that was there already.
    status: String,
    /// Whether a key named a job that was there already.
    existing: bool,
    /// When it was enqueued, by its id.
    queued_at: Timestamp,
    /// When it is due.
    run_at: Timestamp,
}

/// What became of many, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManyTakenIn {
    /// How many are enqueued.
    enqueued: usize,
    /// How many were refused.
    refused: usize,
    /// Each job, or why it was refused.
    jobs: Vec<OneOfMany>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OneOfMany {
    /// The job.
    Taken(TakenIn),
    /// Why not.
    Refused {
        /// The refusal.
        error: ProblemBody,
    },
}

/// The job that was there, or what became of many.
#[derive(ToSchema)]
#[schema(as = EnqueueAnswer)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the answer, which is written as the one or the other")]
pub(crate) enum Told {
    One(TakenIn),
    Many(ManyTakenIn),
}

/// Enqueue a job, or many. Answered when they are durable. An array is answered with 200 and a verdict for each of its
/// jobs: a bad one takes none of the others along.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", request_body = EnqueueBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "As idempotency_key; for one job only")),
    responses(
        (status = 201, body = TakenIn, description = "Enqueued", headers(("Location" = String, description = "The job"))),
        (status = 200, body = Told, description = "A key named a job that was there, or many were enqueued"),
    )
)]
pub(crate) async fn enqueue(
    State(app): State<Arc<App>>,
    tenant: Tenant<Enqueue>,
    headers: HeaderMap,
    Json(body): Json,
) -> Result<Response, Problem> {
    if is_array(&body) {
        // In boxes what one plain job does not need: its request shall not carry it along.
        return Box::pin(many(&app, &tenant, &read_rows(&body)?, &headers)).await;
    }
    let job = read_json::<JobInput>(&body)?.with_headers(&headers)?.job(&tenant.actor);
    app.rules.check(&app.db, &job).await?;
    let asked = Asked::of(&job);
    let done = app.enqueues.put(tenant.id, job).await.map_err(at_its_place)?;
    let status = if done.existing { StatusCode::OK } else { StatusCode::CREATED };
    let location = HeaderValue::from_str(&format!("{ROOT}/jobs/{}", done.id)).ok();
    let mut told = tell(&app, tenant.id, vec![(asked, done)]).await?;
    let taken = told.pop().ok_or_else(|| Problem::unavailable("the enqueue got no answer"))?;
    let mut response = (status, Answer(taken)).into_response();
    response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
    Ok(response)
}

async fn many(
    app: &App,
    caller: &Tenant<Enqueue>,
    rows: &[&RawValue],
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let tenant = caller.id;
    if headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "the header Idempotency-Key names one job; give each of many its idempotency_key";
        return Err(Problem::malformed("idempotency_key_of_many", detail));
    }
    if rows.len() > MOST_ROWS {
        let detail = format!("an array has at most {MOST_ROWS} jobs");
        return Err(Problem::new(ErrorCode::Refused(Code::InvalidArgument), "batch_size", detail));
    }
    let mut refusals: Vec<Option<Problem>> = Vec::with_capacity(rows.len());
    let mut jobs: Vec<(usize, NewJob)> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let read = read_json::<JobInput>(row.get().as_bytes());
        refusals.push(read.map(|input| jobs.push((at, input.job(&caller.actor)))).err());
    }
    let payloads = jobs.iter().map(|(_, job)| (job.job_type.as_str(), &*job.payload));
    let misfits = app.rules.checked(&app.db, payloads).await?;
    let mut sound: Vec<(Uuid, NewJob)> = Vec::with_capacity(jobs.len());
    for ((at, job), misfit) in jobs.into_iter().zip(misfits) {
        match misfit {
            Some(_) => refusals[at] = misfit,
            None => sound.push((tenant, job)),
        }
    }
    let done = write(app, &sound).await?;
    let asked = sound.iter().map(|(_, job)| Asked::of(job));
    let mut taken = Vec::with_capacity(sound.len());
    let mut verdicts = Vec::with_capacity(sound.len());
    for (asked, done) in asked.zip(done) {
        verdicts.push(done.map(|done| taken.push((asked, done))).err().map(at_its_place));
    }
    let mut taken = tell(app, tenant, taken).await?.into_iter();
    let mut verdicts = verdicts.into_iter();
    let mut answer = ManyTakenIn { enqueued: 0, refused: 0, jobs: Vec::with_capacity(rows.len()) };
    for (at, refusal) in refusals.into_iter().enumerate() {
        match refusal.or_else(|| verdicts.next().flatten()) {
            Some(problem) => answer.refuse(&problem.at("").under(&format!("/{at}"))),
            None => answer.take(taken.next()),
        }
    }
    Ok(Answer(answer).into_response())
}

/// What of a job's request its answer needs.
struct Asked {
    job_type: String,
    /// A key that holds across types: the job that it names may be of another.
    by_any_type: bool,
}

impl Asked {
    fn of(job: &NewJob) -> Asked {
        Asked { job_type: job.job_type.clone(), by_any_type: job.dedupe_key.is_some() || job.id.is_some() }
    }
}

/// The jobs as they are told, those that were there already with the type that they are of.
async fn tell(app: &App, tenant: Uuid, done: Vec<(Asked, Enqueued)>) -> Result<Vec<TakenIn>, Problem> {
    let unsure = |(asked, done): &(Asked, Enqueued)| done.existing && asked.by_any_type;
    let mut types = HashMap::new();
    if done.iter().any(unsure) {
        let ids: Vec<Uuid> = done.iter().filter(|row| unsure(row)).map(|(_, done)| done.id).collect();
        types = Box::pin(types_of(app, tenant, &ids)).await?;
    }
    let told = |(asked, done): (Asked, Enqueued)| {
        let job_type = types.get(&done.id).cloned().unwrap_or(asked.job_type);
        TakenIn::new(tenant, job_type, done)
    };
    Ok(done.into_iter().map(told).collect())
}

/// The types of these jobs. One that was dropped since is told as it was asked for.
async fn types_of(app: &App, tenant: Uuid, ids: &[Uuid]) -> Result<HashMap<Uuid, String>, Problem> {
    let client = app.db.tenant().await?;
    let found = client
        .attempt(async |c| {
            let looks = try_join_all(ids.iter().map(|id| rpc::get_job(c, tenant, *id)));
            rpc::at_once(c, looks).await
        })
        .await;
    let found = match found {
        Err(error) if error.code() == Some(Code::NotFound) => Vec::new(),
        found => found?,
    };
    Ok(found.into_iter().map(|job| (job.id, job.job_type)).collect())
}

/// The place that a reason speaks of.
fn at_its_place(problem: Problem) -> Problem {
    match problem.reason() {
        "unknown_definition" | "inactive_definition" => problem.at("/type"),
        "key_reused_with_other_payload" => problem.at("/idempotency_key"),
        "number_too_long" => problem.at("/payload"),
        _ => problem.at_member(&MEMBERS),
    }
}

/// All in one transaction. Jobs with keys may wait for somebody else's transaction: on a connection of their own.
async fn write(app: &App, jobs: &[(Uuid, NewJob)]) -> Result<Vec<Result<Enqueued, Problem>>, Problem> {
    let keyed = jobs.iter().find(|(_, job)| job.is_keyed());
    let client = match keyed {
        Some((tenant, _)) => app.db.patient(*tenant).await?,
        None => app.db.tenant().await?,
    };
    let answers = client.transact(async |c| rpc::enqueue_grouped(c, jobs).await).await?;
    let told = answers.into_iter().zip(jobs);
    Ok(told.map(|(answer, (_, job))| answer.map_err(|refusal| refused(&refusal, &job.job_type))).collect())
}

impl ManyTakenIn {
    fn take(&mut self, taken: Option<TakenIn>) {
        match taken {
            Some(taken) => {
                self.enqueued += 1;
                self.jobs.push(OneOfMany::Taken(taken));
            }
            None => self.refuse(&Problem::unavailable("a job got no answer")),
        }
    }

    fn refuse(&mut self, problem: &Problem) {
        self.refused += 1;
        self.jobs.push(OneOfMany::Refused { error: problem.body() });
    }
}

impl TakenIn {
    fn new(tenant_id: Uuid, job_type: String, done: Enqueued) -> TakenIn {
        let Enqueued { id, status, existing, run_at } = done;
        TakenIn {
            id,
            tenant_id,
            job_type,
            status,
            existing,
            queued_at: made_at(id).unwrap_or(run_at),
            run_at,
        }
    }
}

impl JobInput {
    /// What headers say besides; a key that is given twice must be the same.
    fn with_headers(mut self, headers: &HeaderMap) -> Result<JobInput, Problem> {
        if let Some(value) = headers.get(IDEMPOTENCY_KEY) {
            let malformed =
                |_| Problem::malformed("header_malformed", "the header Idempotency-Key is no text");
            let key = value.to_str().map_err(malformed)?;
            if self.idempotency_key.as_deref().is_some_and(|given| given != key) {
                let detail = "the header Idempotency-Key and idempotency_key differ";
                return Err(Problem::malformed("idempotency_key_twice", detail));
            }
            self.idempotency_key = Some(key.to_owned());
        }
        if self.traceparent.is_none() {
            // A header of a tracer that is no trace context is not the job's fault.
            let given = headers.get("traceparent").and_then(|value| value.to_str().ok());
            self.traceparent = given.filter(|text| text.len() == 55).map(str::to_owned);
        }
        Ok(self)
    }

    /// The job, made by this caller.
    fn job(self, actor: &Actor) -> NewJob {
        let empty = || to_raw_value(&serde_json::Map::new()).unwrap_or_default();
        NewJob {
            created_by: Some(actor.credential.chars().take(MOST_AUTHOR).collect()),
            queue: self.queue,
            priority: self.priority,
            run_at: self.run_at,
            idempotency_key: self.idempotency_key,
            dedupe_key: self.dedupe_key,
            id: self.id,
            max_attempts: self.max_attempts,
            correlation_id: self.correlation_id,
            traceparent: self.traceparent,
            tags: self.tags,
            source: self.source,
            source_ref: self.source_ref,
            concurrency_key: self.concurrency_key,
            ..NewJob::raw(self.job_type, self.payload.unwrap_or_else(empty))
        }
    }
}

/// When the database made an id, to the millisecond: it is in the id.
fn made_at(id: Uuid) -> Option<Timestamp> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn what_a_request_carries_along_is_small() {
        let bytes = future_bytes(enqueue);
        assert!(bytes <= 3 << 10, "{bytes} bytes are copied for each request; box what is rarely needed");
    }
}
