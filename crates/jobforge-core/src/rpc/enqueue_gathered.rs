//! Enqueue what many callers of many tenants asked for, in one statement.

use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::enqueue::{column, refusal, sift, tags_json, with_answers};
use super::new_job::{Enqueued, NewJob, Refusal};
use super::wire::{Columns, Json, in_order};
use crate::error::Error;

const OPERATION: &str = "enqueue_gathered";

/// Enqueues up to 10,000 jobs of many tenants, answered in their order; a bad one, or an unknown tenant's, is refused by
/// itself. For a login that is bound to no tenant, and for jobs without keys: what a job with a key waits for would hold
/// up all the others.
pub async fn enqueue_gathered<C: GenericClient>(
    c: &C,
    jobs: &[(Uuid, NewJob)],
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    let (sound, problems) = sift(jobs, |(_, job)| job.problem());
    let answers = if sound.is_empty() { Vec::new() } else { call(c, &sound).await? };
    with_answers(OPERATION, problems, answers)
}

async fn call<C: GenericClient>(
    c: &C,
    jobs: &[&(Uuid, NewJob)],
) -> Result<Vec<Result<Enqueued, Refusal>>, Error> {
    let tags: Vec<Option<String>> = jobs.iter().map(|(_, job)| tags_json(job)).collect();
    let rows = c
        .query_typed(
            "select e.at, e.id, e.run_at, e.error_code, e.error_reason
             from jobforge.enqueue_gathered(p_tenant_ids => $1, p_types => $2, p_payloads => $3, p_queues => $4,
               p_priorities => $5, p_run_ats => $6, p_max_attempts => $7, p_correlation_ids => $8,
               p_traceparents => $9, p_tags => $10, p_sources => $11, p_source_refs => $12,
               p_concurrency_keys => $13, p_created_bys => $14) as e",
            &[
                (&jobs.iter().map(|(tenant, _)| *tenant).collect::<Vec<_>>(), Type::UUID_ARRAY),
                (&jobs.iter().map(|(_, job)| job.job_type.as_str()).collect::<Vec<_>>(), Type::TEXT_ARRAY),
                (&jobs.iter().map(|(_, job)| Json(job.payload.get())).collect::<Vec<_>>(), Type::JSONB_ARRAY),
                (&column(jobs, |(_, job)| job.queue.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |(_, job)| job.priority), Type::INT4_ARRAY),
                (&column(jobs, |(_, job)| job.run_at), Type::TIMESTAMPTZ_ARRAY),
                (&column(jobs, |(_, job)| job.max_attempts), Type::INT4_ARRAY),
                (&column(jobs, |(_, job)| job.correlation_id.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |(_, job)| job.traceparent.as_deref()), Type::TEXT_ARRAY),
                (&column(&tags, |tags| tags.as_deref().map(Json)), Type::JSONB_ARRAY),
                (&column(jobs, |(_, job)| job.source.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |(_, job)| job.source_ref.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |(_, job)| job.concurrency_key.as_deref()), Type::TEXT_ARRAY),
                (&column(jobs, |(_, job)| job.created_by.as_deref()), Type::TEXT_ARRAY),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    in_order(OPERATION, jobs.len(), rows.iter().map(read_answer))
}

fn read_answer(row: &Row) -> Result<(i32, Result<Enqueued, Refusal>), Error> {
    let mut columns = Columns::of(OPERATION, row);
    let at = columns.take()?;
    let (id, run_at) = (columns.take::<Option<Uuid>>()?, columns.take()?);
    let (code, reason) = (columns.take::<Option<String>>()?, columns.take()?);
    let answer = match id {
        Some(id) => Ok(Enqueued { id, status: "queued".to_owned(), existing: false, run_at }),
        None => Err(refusal(OPERATION, at, code.as_deref(), reason)?),
    };
    Ok((at, answer))
}
