//! Complete: jobs that ended well, a batch or one in a caller's own transaction.

use std::time::Duration;

use tokio_postgres::GenericClient;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::job::{JobColumns, JobRef, Locator, Payload, Verdict};
use super::payload::{self, MAX_RESULT};
use super::wire::{Columns, Json};
use crate::error::{Code, Error};

/// Nearly always all are done: then the answer is their number.
macro_rules! told_of {
    ($call:literal) => {
        concat!(
            "select count(*) filter (where d.verdict = 'done'), array_agg(d.at) filter (where d.verdict <> 'done'),
               array_agg(d.verdict) filter (where d.verdict <> 'done')
             from ",
            $call
        )
    };
}

const COMPLETE: &str = told_of!(
    "jobforge.complete_jobs(p_lease_id => $1, p_tenant_ids => $2, p_job_ids => $3, p_fences => $4,
       p_results => $5, p_locators => $6) as d"
);

/// The lock's time is set before the call, because the call needs it, and for this transaction.
const COMPLETE_UNLOCKED: &str = told_of!(
    "(select set_config('lock_timeout', $7, true) as waits) as s
     cross join lateral jobforge.complete_jobs(p_lease_id => case when s.waits is not null then $1 end,
       p_tenant_ids => $2, p_job_ids => $3, p_fences => $4, p_results => $5, p_locators => $6) as d"
);

/// A job that ended well.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which.
    pub job: JobRef,
    /// What it gives back, at most 1 MiB.
    pub result: Option<Payload>,
    /// Where its row was at the claim.
    pub locator: Option<Locator>,
}

/// Ends jobs well; the verdicts are in their order. A result that cannot be stored is
/// [`Verdict::Invalid`] and spoils no other.
pub async fn complete_jobs<C: GenericClient>(
    c: &C,
    lease: Uuid,
    completions: &[Completion],
) -> Result<Vec<Verdict>, Error> {
    complete_sound(c, lease, completions, None).await
}

/// The same, but where somebody else holds one of the jobs locked for longer than this, it is an error that says so
/// (`55P03`), and nothing is done: for connections on which others wait.
pub async fn complete_unlocked<C: GenericClient>(
    c: &C,
    lease: Uuid,
    completions: &[Completion],
    wait: Duration,
) -> Result<Vec<Verdict>, Error> {
    complete_sound(c, lease, completions, Some(wait)).await
}

async fn complete_sound<C: GenericClient>(
    c: &C,
    lease: Uuid,
    completions: &[Completion],
    wait: Option<Duration>,
) -> Result<Vec<Verdict>, Error> {
    let is_sound = |completion: &Completion| {
        completion.result.as_ref().is_none_or(|result| payload::problem(result.get(), MAX_RESULT).is_none())
    };
    let sound: Vec<&Completion> = completions.iter().filter(|completion| is_sound(completion)).collect();
    let verdicts = call_batch(c, lease, &sound, wait).await?;
    if sound.len() == completions.len() {
        return Ok(verdicts);
    }
    let mut verdicts = verdicts.into_iter();
    let all = completions.iter().map(|completion| match is_sound(completion) {
        true => verdicts.next().unwrap_or(Verdict::Unknown),
        false => Verdict::Invalid,
    });
    Ok(all.collect())
}

/// Ends one job well, on any client or in any transaction: what else the transaction writes is committed
/// with it or not at all. A stale or unknown job is an error, so that such a transaction rolls back.
pub async fn complete_job<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    result: Option<&Payload>,
) -> Result<Verdict, Error> {
    const OPERATION: &str = "complete_job";
    if let Some(reason) = result.and_then(|result| payload::problem(result.get(), MAX_RESULT)) {
        return Err(Error::Refused {
            operation: OPERATION,
            code: Code::PayloadInvalid,
            reason: reason.replace("payload", "result"),
            message: format!("the result of job {} cannot be stored", job.id),
        });
    }
    let row = c
        .query_typed_one(
            "select jobforge.complete_job(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3,
               p_fence => $4, p_result => $5)",
            &[
                (&lease, Type::UUID),
                (&job.tenant_id, Type::UUID),
                (&job.id, Type::UUID),
                (&job.fence, Type::INT4),
                (&result.map(Json::from), Type::JSONB),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Verdict::parse(OPERATION, Columns::of(OPERATION, &row).take()?)
}

/// Completes nothing: what a session has to compile and plan once, which takes as long as thousands of jobs, is done before the
/// first report that counts.
pub async fn rehearse_complete<C: GenericClient>(c: &C) -> Result<(), Error> {
    c.query_typed_one("select from jobforge.rehearse_complete()", &[])
        .await
        .map_err(|error| Error::call("rehearse_complete", error))?;
    Ok(())
}

async fn call_batch<C: GenericClient>(
    c: &C,
    lease: Uuid,
    completions: &[&Completion],
    wait: Option<Duration>,
) -> Result<Vec<Verdict>, Error> {
    const OPERATION: &str = "complete_jobs";
    if completions.is_empty() {
        return Ok(Vec::new());
    }
    // By place: so they lie in the table, and so they come back.
    let mut order: Vec<usize> = (0..completions.len()).collect();
    order.sort_by_key(|at| completions[*at].locator);
    let completions: Vec<&Completion> = order.iter().map(|at| completions[*at]).collect();
    let jobs: JobColumns = completions.iter().map(|completion| completion.job).collect();
    let results: Vec<Option<Json>> =
        completions.iter().map(|completion| completion.result.as_ref().map(Json::from)).collect();
    let results = results.iter().any(Option::is_some).then_some(results);
    // All or none: a row without a place would only be found by a second look over the whole batch.
    let locators: Option<Vec<Locator>> = completions.iter().map(|completion| completion.locator).collect();
    let wait = wait.map(|wait| format!("{}ms", wait.as_millis()));
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![
        (&lease, Type::UUID),
        (&jobs.tenant_ids, Type::UUID_ARRAY),
        (&jobs.ids, Type::UUID_ARRAY),
        (&jobs.fences, Type::INT4_ARRAY),
        (&results, Type::JSONB_ARRAY),
        (&locators, Type::TID_ARRAY),
    ];
    parameters.extend(wait.iter().map(|wait| (wait as &(dyn ToSql + Sync), Type::TEXT)));
    let statement = if wait.is_some() { COMPLETE_UNLOCKED } else { COMPLETE };
    let row =
        c.query_typed_one(statement, &parameters).await.map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    let done: i64 = columns.take()?;
    let others: Option<Vec<i32>> = columns.take()?;
    let verdicts: Option<Vec<&str>> = columns.take()?;
    let by_place = judged(order.len(), done, &others.unwrap_or_default(), &verdicts.unwrap_or_default())?;
    let mut verdicts = by_place.clone();
    for (at, verdict) in order.into_iter().zip(by_place) {
        verdicts[at] = verdict;
    }
    Ok(verdicts)
}

/// The verdicts in the rows' order, from how many are done and which are not: none may be missing.
fn judged(rows: usize, done: i64, others: &[i32], verdicts: &[&str]) -> Result<Vec<Verdict>, Error> {
    const OPERATION: &str = "complete_jobs";
    if usize::try_from(done).ok().map(|done| done + others.len()) != Some(rows) {
        return Err(Error::shape(OPERATION, format_args!("{done} and {} of {rows} rows", others.len())));
    }
    let mut judged = vec![Verdict::Done; rows];
    for (at, verdict) in others.iter().zip(verdicts) {
        let place = usize::try_from(*at).ok().and_then(|at| judged.get_mut(at.checked_sub(1)?));
        let place = place.ok_or_else(|| Error::shape(OPERATION, format_args!("row {at} of {rows}")))?;
        *place = Verdict::parse(OPERATION, verdict)?;
    }
    Ok(judged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_judged_once() {
        let answer = judged(4, 2, &[4, 2], &["stale", "already"]).unwrap();
        assert_eq!(answer, [Verdict::Done, Verdict::Already, Verdict::Done, Verdict::Stale]);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_no_answer() {
        assert!(judged(3, 2, &[], &[]).is_err(), "a row is missing");
        assert!(judged(3, 3, &[1], &["stale"]).is_err(), "there is one too many");
        assert!(judged(2, 1, &[3], &["stale"]).is_err(), "nobody asked for it");
        assert!(judged(2, 1, &[1], &["fine"]).is_err(), "nobody knows what it says");
    }
}
