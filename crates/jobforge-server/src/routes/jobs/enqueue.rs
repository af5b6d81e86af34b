//! Enqueue one job, or many.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jobforge_core::{Enqueued, NewJob, Payload, rpc};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Enqueue, Tenant};
use crate::extract::{Answer, Json, read_json};
use crate::gather::refused;
use crate::openapi::ROOT;
use crate::problem::{Problem, ProblemBody};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

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

/// Enqueue a job, or many. Answered when they are durable. An array is answered with 200 and a verdict for each of its
/// jobs: a bad one takes none of the others along.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", request_body = EnqueueBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "As idempotency_key; for one job only")),
    responses(
        (status = 201, body = TakenIn, description = "Enqueued", headers(("Location" = String, description = "The job"))),
        (status = 200, body = ManyTakenIn, description = "A key named a job that was there, or many were enqueued"),
    )
)]
pub(crate) async fn enqueue(
    State(app): State<Arc<App>>,
    tenant: Tenant<Enqueue>,
    headers: HeaderMap,
    Json(body): Json,
) -> Result<Response, Problem> {
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let inputs: Vec<JobInput> = read_json(&body)?;
        return many(&app, tenant.id, inputs, &headers).await;
    }
    let job = read_json::<JobInput>(&body)?.with_headers(&headers)?.job();
    app.rules.check(&app.db, &job).await?;
    let job_type = job.job_type.clone();
    let done = app.enqueues.put(tenant.id, job).await?;
    let status = if done.existing { StatusCode::OK } else { StatusCode::CREATED };
    let location = HeaderValue::from_str(&format!("{ROOT}/jobs/{}", done.id)).ok();
    let taken = TakenIn::new(tenant.id, job_type, done);
    let mut response = (status, Answer(taken)).into_response();
    response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
    Ok(response)
}

async fn many(
    app: &App,
    tenant: Uuid,
    inputs: Vec<JobInput>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "the header Idempotency-Key names one job; give each of many its idempotency_key";
        return Err(Problem::malformed("idempotency_key_of_many", detail));
    }
    let jobs: Vec<NewJob> = inputs.into_iter().map(JobInput::job).collect();
    let problems = app.rules.checked(&app.db, &jobs).await?;
    let sound = jobs.iter().zip(&problems).filter(|(_, problem)| problem.is_none());
    let sound: Vec<(Uuid, NewJob)> = sound.map(|(job, _)| (tenant, job.clone())).collect();
    let mut done = write(app, &sound).await?.into_iter();
    let mut answer = ManyTakenIn { enqueued: 0, refused: 0, jobs: Vec::with_capacity(jobs.len()) };
    for (at, (job, problem)) in jobs.into_iter().zip(problems).enumerate() {
        let missing = || Err(Problem::unavailable("a job got no answer"));
        let verdict = problem.map_or_else(|| done.next().unwrap_or_else(missing), Err);
        answer.add(tenant, job.job_type, verdict.map_err(|problem| problem.under(&format!("/{at}"))));
    }
    Ok(Answer(answer).into_response())
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
    fn add(&mut self, tenant: Uuid, job_type: String, verdict: Result<Enqueued, Problem>) {
        match verdict {
            Ok(done) => {
                self.enqueued += 1;
                self.jobs.push(OneOfMany::Taken(TakenIn::new(tenant, job_type, done)));
            }
            Err(problem) => {
                self.refused += 1;
                self.jobs.push(OneOfMany::Refused { error: problem.body() });
            }
        }
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

    fn job(self) -> NewJob {
        let empty = || to_raw_value(&serde_json::Map::new()).unwrap_or_default();
        NewJob {
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
