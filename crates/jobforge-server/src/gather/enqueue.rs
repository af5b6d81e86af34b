//! Enqueues of many callers and tenants in one transaction.
//!
//! A job with a key may have to wait for somebody else's transaction that holds the key. Such jobs go their own
//! way: together, for a moment; a batch that is held up is halved until the one that waits is alone, and that one then
//! waits on a connection which nobody else needs. Who comes with a key that is known to be held joins it there.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{Code, Enqueued, Error, NewJob, Refusal, rpc};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::Client;
use uuid::Uuid;

use super::held::{Held, hash};
use super::lanes::{Lanes, Write};
use crate::config::ServerConfig;
use crate::db::{Db, PATIENT};
use crate::lent::is_canceled;
use crate::problem::{ErrorCode, Problem};

/// Writers of each kind: one commits while the other gathers, or passes it by if it is held up.
const LANES: usize = 2;
/// The most jobs of a batch.
const MOST: usize = 500;
/// How long a batch waits for keys that somebody else holds.
const MOMENT: Duration = Duration::from_millis(10);

type Ordered = (Uuid, NewJob);

/// Where requests enqueue.
pub(crate) struct Enqueues {
    db: Arc<Db>,
    plain: Lanes<Plain>,
    keyed: Lanes<Keyed>,
    /// How many may wait for keys at a time.
    patient: Semaphore,
    held: Held,
    patience: Duration,
}

impl Enqueues {
    pub(crate) fn start(db: Arc<Db>, config: &ServerConfig) -> Enqueues {
        // Not gathered, each job has a transaction of its own, as many at a time as there are connections.
        let (lanes, most) = if config.gather { (LANES, MOST) } else { (config.connections, 1) };
        Enqueues {
            plain: Lanes::start(Plain(db.clone()), lanes, most, config.call_timeout),
            keyed: Lanes::start(Keyed(db.clone()), lanes, most, config.call_timeout),
            patient: Semaphore::new(PATIENT),
            held: Held::default(),
            patience: config.call_timeout,
            db,
        }
    }

    /// Enqueues one job; returns when it is durable.
    pub(crate) async fn put(&self, tenant: Uuid, job: NewJob) -> Result<Enqueued, Problem> {
        if !job.is_keyed() {
            return self.plain.put((tenant, job)).await;
        }
        // In a box: a plain job's request shall not carry this along.
        Box::pin(self.put_keyed(tenant, job)).await
    }

    async fn put_keyed(&self, tenant: Uuid, job: NewJob) -> Result<Enqueued, Problem> {
        if self.held.holds(&hashes(tenant, &job)) {
            return self.wait(tenant, job).await;
        }
        match self.keyed.put((tenant, job)).await? {
            Keeping::Done(enqueued) => Ok(enqueued),
            Keeping::HeldUp(job) => self.wait(tenant, *job).await,
        }
    }

    /// Waits for whoever holds the job's key, as long as a call may take: of all that come with the key one in the database,
    /// the others for their turn.
    async fn wait(&self, tenant: Uuid, job: NewJob) -> Result<Enqueued, Problem> {
        let mark = self.held.mark(hashes(tenant, &job));
        let turn = async { (mark.turn().await, self.patient.acquire().await) };
        let Ok(_turn) = timeout(self.patience, turn).await else { return Err(held_up()) };
        let client = self.db.patient(tenant).await?;
        let jobs = [(tenant, job)];
        let wait = async |c: &mut Client| rpc::enqueue_grouped_within(c, &jobs, self.patience).await;
        let answer = client.transact(wait).await;
        if answer.as_ref().is_err_and(|error| waits(error) || is_canceled(error)) {
            return Err(held_up());
        }
        let [(_, job)] = jobs;
        match answer?.pop() {
            Some(answer) => answer.map_err(|refusal| refused(&refusal, &job.job_type)),
            None => Err(Problem::unavailable("the enqueue got no answer")),
        }
    }
}

/// Jobs without keys.
struct Plain(Arc<Db>);

impl Write for Plain {
    type Item = Ordered;
    type Answer = Enqueued;

    async fn write(&self, jobs: Vec<Ordered>) -> Vec<Result<Enqueued, Problem>> {
        match enqueue(&self.0, &jobs, None).await {
            Ok(answers) => answers,
            Err(error) => all(jobs.len(), &Problem::from(error)),
        }
    }
}

/// Jobs with keys.
struct Keyed(Arc<Db>);

/// What became of a job with a key.
enum Keeping {
    Done(Enqueued),
    HeldUp(Box<NewJob>),
}

impl Write for Keyed {
    type Item = Ordered;
    type Answer = Keeping;

    async fn write(&self, jobs: Vec<Ordered>) -> Vec<Result<Keeping, Problem>> {
        let mut answers: Vec<Option<Result<Keeping, Problem>>> = jobs.iter().map(|_| None).collect();
        let mut ranges = Vec::from([(0, jobs.len())]);
        while let Some((start, end)) = ranges.pop() {
            let range = start..end;
            match enqueue(&self.0, &jobs[range.clone()], Some(MOMENT)).await {
                Ok(done) => {
                    for (at, answer) in range.zip(done) {
                        answers[at] = Some(answer.map(Keeping::Done));
                    }
                }
                Err(error) if waits(&error) && range.len() > 1 => {
                    let middle = start + range.len() / 2;
                    ranges.extend([(start, middle), (middle, end)]);
                }
                Err(error) if waits(&error) => {
                    answers[start] = Some(Ok(Keeping::HeldUp(Box::new(jobs[start].1.clone()))));
                }
                Err(error) => {
                    let problem = Problem::from(error);
                    for at in range {
                        answers[at] = Some(Err(problem.clone()));
                    }
                }
            }
        }
        let unanswered = || Err(Problem::unavailable("the enqueue got no answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }
}

/// One transaction, or one statement for one job.
async fn enqueue(
    db: &Db,
    jobs: &[Ordered],
    patience: Option<Duration>,
) -> Result<Vec<Result<Enqueued, Problem>>, Error> {
    let closed = |_| Error::Closed { operation: "enqueue_jobs" };
    let client = db.tenant().await.map_err(closed)?;
    match (jobs, patience) {
        ([(tenant, job)], None) => {
            let answer = client.attempt(async |c| rpc::enqueue_job(c, *tenant, job).await).await;
            answer.map(|done| vec![Ok(done)]).or_else(alone)
        }
        (_, None) => gathered(client.transact(async |c| across(c, jobs).await).await, jobs),
        (_, Some(moment)) => {
            let call = async |c: &mut Client| rpc::enqueue_grouped_within(c, jobs, moment).await;
            gathered(client.transact(call).await, jobs)
        }
    }
}

/// One statement for all tenants; a login that is bound to one of them enqueues under it.
async fn across(client: &mut Client, jobs: &[Ordered]) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    match rpc::enqueue_gathered(&*client, jobs).await {
        Err(error) if error.code() == Some(Code::Forbidden) => rpc::enqueue_grouped(client, jobs).await,
        answer => answer,
    }
}

/// What one job was refused for is its own answer, not the batch's.
fn alone(error: Error) -> Result<Vec<Result<Enqueued, Problem>>, Error> {
    match error.code() {
        Some(_) => Ok(vec![Err(Problem::from(error))]),
        None => Err(error),
    }
}

fn gathered(
    answer: Result<Vec<Result<Enqueued, Refusal>>, Error>,
    jobs: &[Ordered],
) -> Result<Vec<Result<Enqueued, Problem>>, Error> {
    let told = |(answer, (_, job)): (Result<Enqueued, Refusal>, &Ordered)| {
        answer.map_err(|refusal| refused(&refusal, &job.job_type))
    };
    Ok(answer?.into_iter().zip(jobs).map(told).collect())
}

/// Whether somebody else's lock was in the way.
fn waits(error: &Error) -> bool {
    error.is_transient() && !error.is_connection()
}

/// A row's refusal, told as a single call's.
pub(crate) fn refused(refusal: &Refusal, job_type: &str) -> Problem {
    let detail = format!("{job_type}: {}", refusal.reason.replace('_', " "));
    Problem::new(ErrorCode::Refused(refusal.code), refusal.reason.clone(), detail)
}

fn held_up() -> Problem {
    let detail = "another transaction holds the job's key; try again when it has ended";
    Problem::new(ErrorCode::Unavailable, "key_held", detail).retry_after(Duration::from_secs(1))
}

fn all<T>(count: usize, problem: &Problem) -> Vec<Result<T, Problem>> {
    (0..count).map(|_| Err(problem.clone())).collect()
}

fn hashes(tenant: Uuid, job: &NewJob) -> Vec<u64> {
    let id = job.id.map(|id| id.to_string());
    let keys = [("idempotency", &job.idempotency_key), ("dedupe", &job.dedupe_key), ("id", &id)];
    let told = |(kind, key): (&str, &String)| {
        // An idempotency key is one per type, a dedupe key holds across types.
        hash((kind, tenant, key, (kind == "idempotency").then_some(&job.job_type)))
    };
    keys.into_iter().filter_map(|(kind, key)| Some(told((kind, key.as_ref()?)))).collect()
}
