//! Enqueue: one job, a batch of one tenant, batches of many tenants in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join, join_all};
use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Row, Statement, Transaction};
use uuid::Uuid;

use super::lock_limit::limit_locks;
use super::new_job::{Enqueued, NewJob, Refusal};
use super::wire::{Columns, Json, in_order};
use crate::error::{Code, Error};

/// The most jobs of one batch.
const MAX_BATCH: usize = 10_000;

const ENQUEUE_JOB: &str = "enqueue_job";

/// The shortest statement there is: without a name it is parsed and planned anew each time.
const PLAIN: &str = "select jobforge.enqueue_plain(set_config('app.tenant_id', $1, true)::uuid, $2, $3, $4)";
const PLAIN_PARAMETERS: [Type; 4] = [Type::TEXT, Type::TEXT, Type::JSONB, Type::TEXT];

/// The enqueue of a plain job, prepared on one connection: it spares each call its parsing and planning, a tenth of its time.
/// Not for a connection through a pooler that hands sessions around: there a statement's name may mean another's.
#[derive(Clone)]
pub struct PreparedEnqueue(Statement);

/// Prepares the enqueue on this connection.
pub async fn prepare_enqueue<C: GenericClient>(c: &C) -> Result<PreparedEnqueue, Error> {
    let prepared = c.prepare_typed(PLAIN, &PLAIN_PARAMETERS).await;
    prepared.map(PreparedEnqueue).map_err(|error| Error::call(ENQUEUE_JOB, error))
}

/// Enqueues one job, in the caller's transaction if there is one.
pub async fn enqueue_job<C: GenericClient>(c: &C, tenant: Uuid, job: &NewJob) -> Result<Enqueued, Error> {
    enqueue(c, None, tenant, job).await
}

/// The same as [`enqueue_job`], by the statement prepared on this connection where the job asks for nothing but its
/// definition's defaults.
pub async fn enqueue_prepared<C: GenericClient>(
    c: &C,
    prepared: &PreparedEnqueue,
    tenant: Uuid,
    job: &NewJob,
) -> Result<Enqueued, Error> {
    enqueue(c, Some(prepared), tenant, job).await
}

async fn enqueue<C: GenericClient>(
    c: &C,
    prepared: Option<&PreparedEnqueue>,
    tenant: Uuid,
    job: &NewJob,
) -> Result<Enqueued, Error> {
    if let Some(refusal) = job.problem() {
        return Err(refusal.into_error(ENQUEUE_JOB, &job.job_type));
    }
    if job.is_plain() {
        return enqueue_plain(c, prepared, tenant, job).await;
    }
    let tags = tags_json(job);
    let row = c
        .query_typed_one(
            "select e.id, e.status, e.existing, e.run_at
             from jobforge.enqueue_job(p_tenant_id => set_config('app.tenant_id', $1::text, true)::uuid,
               p_type => $2, p_payload => $3, p_queue => $4, p_priority => $5, p_run_at => $6, p_idempotency_key => $7,
               p_dedupe_key => $8, p_id => $9, p_max_attempts => $10, p_correlation_id => $11,
               p_traceparent => $12, p_tags => $13, p_source => $14, p_source_ref => $15,
               p_concurrency_key => $16, p_created_by => $17) as e",
            &[
                (&tenant, Type::UUID),
                (&job.job_type, Type::TEXT),
                (&Json(job.payload.get()), Type::JSONB),
                (&job.queue, Type::TEXT),
                (&job.priority, Type::INT4),
                (&job.run_at, Type::TIMESTAMPTZ),
                (&job.idempotency_key, Type::TEXT),
                (&job.dedupe_key, Type::TEXT),
                (&job.id, Type::UUID),
                (&job.max_attempts, Type::INT4),
                (&job.correlation_id, Type::TEXT),
                (&job.traceparent, Type::TEXT),
                (&tags.as_deref().map(Json), Type::JSONB),
                (&job.source, Type::TEXT),
                (&job.source_ref, Type::TEXT),
                (&job.concurrency_key, Type::TEXT),
                (&job.created_by, Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(ENQUEUE_JOB, error))?;
    let mut columns = Columns::of(ENQUEUE_JOB, &row);
    Ok(enqueued(columns.take()?, columns.take()?, columns.take()?, columns.take()?))
}

/// A job that asks for nothing but its definition's defaults.
async fn enqueue_plain<C: GenericClient>(
    c: &C,
    prepared: Option<&PreparedEnqueue>,
    tenant: Uuid,
    job: &NewJob,
) -> Result<Enqueued, Error> {
    let payload = Json(job.payload.get());
    let tenant = tenant.to_string();
    let values: [&(dyn ToSql + Sync); 4] = [&tenant, &job.job_type, &payload, &job.created_by];
    let row = match prepared {
        Some(prepared) => c.query_one(&prepared.0, &values).await,
        None => {
            let typed: Vec<_> = values.into_iter().zip(PLAIN_PARAMETERS).collect();
            c.query_typed_one(PLAIN, &typed).await
        }
    };
    let row = row.map_err(|error| Error::call(ENQUEUE_JOB, error))?;
    let id = Columns::of(ENQUEUE_JOB, &row).take()?;
    Ok(Enqueued { id, status: "queued".to_owned(), existing: false, run_at: id_time(id)? })
}

/// The moment that a new job's id was made from, and from which it is due: `jobforge.id_time`, without a call. The id counts in
/// 4096ths of a millisecond, four in a microsecond; the nearest one is taken from the middle between the places 0 and 1,
/// because an id of a batch of one is a count ahead.
fn id_time(id: Uuid) -> Result<Timestamp, Error> {
    let bits = id.as_u128();
    // 48 bits of milliseconds and the 12 behind the version's four.
    let counted = (bits >> 80) << 12 | (bits >> 64) & 0xfff;
    let microseconds = (counted * 125 + 194) / 512;
    let microseconds = i64::try_from(microseconds).ok();
    let time = microseconds.and_then(|microseconds| Timestamp::from_microsecond(microseconds).ok());
    time.ok_or_else(|| Error::shape(ENQUEUE_JOB, "the id holds no time"))
}

/// Enqueues up to 10,000 jobs of a tenant in one call, answered in their order. A bad one is refused by
/// itself, and so is one by another author than the first's.
pub async fn enqueue_jobs<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    jobs: &[NewJob],
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    enqueue_refs(c, tenant, &jobs.iter().collect::<Vec<_>>()).await
}

/// Enqueues jobs of many tenants in one transaction, one pipelined statement for each tenant, answered in
/// their order. A tenant that is refused as a whole (unknown, foreign) takes none of the others along.
pub async fn enqueue_grouped(
    client: &mut Client,
    jobs: &[(Uuid, NewJob)],
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    enqueue_in_groups(client, jobs, None).await
}

/// The same for jobs with keys, which wait for other transactions that hold theirs: no longer than this, then nothing
/// is enqueued and the error is a transient one.
pub async fn enqueue_grouped_within(
    client: &mut Client,
    jobs: &[(Uuid, NewJob)],
    patience: Duration,
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    enqueue_in_groups(client, jobs, Some(patience)).await
}

async fn enqueue_in_groups(
    client: &mut Client,
    jobs: &[(Uuid, NewJob)],
    patience: Option<Duration>,
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    // In the tenants' order, so that two gathered batches with the same keys do not deadlock.
    let mut groups: Groups<'_> = BTreeMap::new();
    for (at, (tenant, job)) in jobs.iter().enumerate() {
        groups.entry((*tenant, job.created_by.as_deref())).or_default().push(at);
    }
    let mut answers: Vec<Option<Result<Enqueued, Refusal>>> = vec![None; jobs.len()];
    loop {
        match enqueue_groups(client, jobs, &groups, patience).await {
            Ok(done) => {
                for (at, answer) in done {
                    answers[at] = Some(answer);
                }
                break;
            }
            // Its error ended the transaction: the others go again without it.
            Err((tenant, Error::Refused { code, reason, .. })) => {
                let refused =
                    groups.extract_if(.., |group, _| group.0 == tenant).flat_map(|(_, places)| places);
                for at in refused {
                    answers[at] = Some(Err(Refusal { code, reason: reason.clone() }));
                }
            }
            Err((_, error)) => return Err(error),
        }
    }
    let complete: Option<Vec<_>> = answers.into_iter().collect();
    complete.ok_or_else(|| Error::shape("enqueue_jobs", "a row got no answer"))
}

/// The places of each tenant's and author's jobs.
type Groups<'a> = BTreeMap<(Uuid, Option<&'a str>), Vec<usize>>;

type Numbered = Vec<(usize, Result<Enqueued, Refusal>)>;

/// One transaction over all groups, or the first tenant whose statement failed.
async fn enqueue_groups(
    client: &mut Client,
    jobs: &[(Uuid, NewJob)],
    groups: &Groups<'_>,
    patience: Option<Duration>,
) -> Result<Numbered, (Uuid, Error)> {
    let failed = |error| (Uuid::nil(), Error::call("enqueue_jobs", error));
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let transaction = client.transaction().await.map_err(failed)?;
    let hasten = hasten(&transaction, patience);
    let calls = groups.iter().map(async |((tenant, _), places)| {
        let jobs: Vec<&NewJob> = places.iter().map(|at| &jobs[*at].1).collect();
        enqueue_refs(&transaction, *tenant, &jobs).await.map_err(|error| (*tenant, error))
    });
    let mut done = Vec::with_capacity(jobs.len());
    let (hastened, answered) = join(hasten, join_all(calls)).await;
    hastened.map_err(|error| (Uuid::nil(), error))?;
    for (answers, places) in answered.into_iter().zip(groups.values()) {
        done.extend(places.iter().copied().zip(answers?));
    }
    transaction.commit().await.map_err(failed)?;
    Ok(done)
}

/// Bounds how long the transaction waits for locks; sent before the calls, without waiting for its answer.
async fn hasten(transaction: &Transaction<'_>, patience: Option<Duration>) -> Result<(), Error> {
    match patience {
        Some(patience) => limit_locks(transaction, "enqueue_jobs", patience).await,
        None => Ok(()),
    }
}

async fn enqueue_refs<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    jobs: &[&NewJob],
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    if jobs.len() > MAX_BATCH {
        let refusal = Refusal { code: Code::InvalidArgument, reason: "batch_size".to_owned() };
        return Err(refusal.into_error("enqueue_jobs", "more than 10000 jobs"));
    }
    let author = jobs.first().and_then(|job| job.created_by.as_ref());
    let (sound, problems) = sift(jobs, |job| match job.created_by.as_ref() == author {
        true => job.problem(),
        false => Some(Refusal { code: Code::InvalidArgument, reason: "created_by_differs".to_owned() }),
    });
    let answers = call_batch(c, tenant, &sound).await?;
    with_answers("enqueue_jobs", problems, answers)
}

/// What may be sent, and what each of them was refused for before.
pub(super) fn sift<'a, J>(
    jobs: &'a [J],
    problem: impl Fn(&'a J) -> Option<Refusal>,
) -> (Vec<&'a J>, Vec<Option<Refusal>>) {
    let problems: Vec<Option<Refusal>> = jobs.iter().map(problem).collect();
    let sound = jobs.iter().zip(&problems).filter(|(_, problem)| problem.is_none()).map(|(one, _)| one);
    (sound.collect(), problems)
}

/// The answers of what was sent among the refusals of what was not.
pub(super) fn with_answers(
    operation: &'static str,
    problems: Vec<Option<Refusal>>,
    answers: Vec<Result<Enqueued, Refusal>>,
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    let mut answers = answers.into_iter();
    let all = problems.into_iter().map(|problem| match problem {
        Some(refusal) => Ok(Err(refusal)),
        None => answers.next().ok_or_else(|| Error::shape(operation, "a row got no answer")),
    });
    all.collect()
}

async fn call_batch<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    jobs: &[&&NewJob],
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    const OPERATION: &str = "enqueue_jobs";
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let tags: Vec<Option<String>> = jobs.iter().map(|job| tags_json(job)).collect();
    let rows = c
        .query_typed(
            "select e.at, e.id, e.status, e.existing, e.run_at, e.error_code, e.error_reason
             from jobforge.enqueue_jobs(p_tenant_id => set_config('app.tenant_id', $1::text, true)::uuid,
               p_types => $2, p_payloads => $3, p_queues => $4, p_priorities => $5, p_run_ats => $6,
               p_idempotency_keys => $7, p_dedupe_keys => $8, p_ids => $9, p_max_attempts => $10,
               p_correlation_ids => $11, p_traceparents => $12, p_tags => $13, p_sources => $14,
               p_source_refs => $15, p_concurrency_keys => $16, p_created_by => $17) as e",
            &[
                (&tenant, Type::UUID),
                (&jobs.iter().map(|job| job.job_type.as_str()).collect::<Vec<_>>(), Type::TEXT_ARRAY),
                (&jobs.iter().map(|job| Json(job.payload.get())).collect::<Vec<_>>(), Type::JSONB_ARRAY),
                (&column(jobs, |job| job.queue.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |job| job.priority), Type::INT4_ARRAY),
                (&column(jobs, |job| job.run_at), Type::TIMESTAMPTZ_ARRAY),
                (&column(jobs, |job| job.idempotency_key.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |job| job.dedupe_key.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |job| job.id), Type::UUID_ARRAY),
                (&column(jobs, |job| job.max_attempts), Type::INT4_ARRAY),
                (&column(jobs, |job| job.correlation_id.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |job| job.traceparent.as_deref()), Type::TEXT_ARRAY),
                (&column(&tags, |tags| tags.as_deref().map(Json)), Type::JSONB_ARRAY),
                (&column(jobs, |job| job.source.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |job| job.source_ref.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |job| job.concurrency_key.as_deref()), Type::TEXT_ARRAY),
                (&jobs.first().and_then(|job| job.created_by.as_deref()), Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    in_order(OPERATION, jobs.len(), rows.iter().map(read_answer))
}

fn read_answer(row: &Row) -> Result<(i32, Result<Enqueued, Refusal>), Error> {
    const OPERATION: &str = "enqueue_jobs";
    let mut columns = Columns::of(OPERATION, row);
    let at = columns.take()?;
    let id: Option<Uuid> = columns.take()?;
    let status: Option<String> = columns.take()?;
    let existing = columns.take()?;
    let run_at: Option<Timestamp> = columns.take()?;
    let (code, reason): (Option<String>, Option<String>) = (columns.take()?, columns.take()?);
    if let Some(id) = id {
        return Ok((at, Ok(enqueued(id, status, existing, run_at))));
    }
    Ok((at, Err(refusal(OPERATION, at, code.as_deref(), reason)?)))
}

/// Why a row without a job has none.
pub(super) fn refusal(
    operation: &'static str,
    at: i32,
    code: Option<&str>,
    reason: Option<String>,
) -> Result<Refusal, Error> {
    let code = Code::parse(code.unwrap_or_default())
        .ok_or_else(|| Error::shape(operation, format_args!("row {at} has neither an id nor a code")))?;
    Ok(Refusal { code, reason: reason.unwrap_or_default() })
}

/// A key outlives its job: it then names a job of which nothing else is known.
fn enqueued(id: Uuid, status: Option<String>, existing: bool, run_at: Option<Timestamp>) -> Enqueued {
    let status = status.unwrap_or_else(|| "gone".to_owned());
    Enqueued { id, status, existing, run_at: run_at.unwrap_or(Timestamp::UNIX_EPOCH) }
}

/// A column of the batch, or null when no row has a value for it.
pub(super) fn column<'a, J, T>(jobs: &'a [J], value: impl Fn(&'a J) -> Option<T>) -> Option<Vec<Option<T>>> {
    let values: Vec<Option<T>> = jobs.iter().map(value).collect();
    values.iter().any(Option::is_some).then_some(values)
}

pub(super) fn tags_json(job: &NewJob) -> Option<String> {
    // Strings always serialise.
    (!job.tags.is_empty()).then(|| serde_json::Value::from(job.tags.clone()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_an_id_is_the_nearest_microsecond() {
        let second = 1_767_225_600_u128;
        for (below, expected) in [(0_u128, 0), (1, 0), (4, 1), (5, 1), (2048, 500), (2052, 501), (4095, 1000)]
        {
            let id = Uuid::from_u128((second * 1000) << 80 | 7 << 76 | below << 64 | 2 << 62);
            let expected = i64::try_from(second).unwrap() * 1_000_000 + expected;
            assert_eq!(id_time(id).unwrap(), Timestamp::from_microsecond(expected).unwrap(), "{below}");
        }
        assert!(id_time(Uuid::max()).is_err(), "the year 10889 is no time of ours");
    }
}
