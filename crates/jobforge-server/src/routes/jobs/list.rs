//! A page of jobs, newest first.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{Code, JobFilter, JobSummary, Payload, rpc};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::cursor;
use crate::extract::{Answer, Params};
use crate::problem::{ErrorCode, Problem};

/// The most jobs of a page, and the most that are passed by.
const MOST: usize = 1000;
/// How long a filter that finds little may look in the database before its page ends as it is.
const BUDGET_MS: i32 = 80;

/// Which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Any of these, separated by commas: blocked, queued, running, succeeded, failed, dead, canceled.
    status: Option<String>,
    /// Only this type.
    #[serde(rename = "type", alias = "definition_key")]
    job_type: Option<String>,
    /// Only this queue.
    queue: Option<String>,
    /// Only of this source: manual, event, schedule, system or workflow.
    source: Option<String>,
    /// Only with this label.
    tag: Option<String>,
    /// Only jobs whose payload, as it is shown, contains this JSON object.
    #[param(example = r#"{"order": {"id": 7}}"#)]
    payload: Option<String>,
    /// Enqueued at or after this time.
    created_after: Option<Timestamp>,
    /// Enqueued before this time.
    created_before: Option<Timestamp>,
    /// The most jobs, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i32>,
    /// Where the page before ended.
    cursor: Option<String>,
    /// So many jobs are passed by first, 0 to 1000: they are walked over each time, so go on with the cursor, which never
    /// misses a job or shows one twice. Not together with a cursor.
    #[param(minimum = 0, maximum = 1000)]
    offset: Option<usize>,
}

/// Where a page ended, and how many jobs are still to be passed by.
type End = (Uuid, usize);

/// A job of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedJob {
    /// Whose it is.
    tenant_id: Uuid,
    /// When it was enqueued.
    queued_at: Timestamp,
    #[serde(flatten)]
    job: JobSummary,
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPage {
    /// The jobs, newest first.
    jobs: Vec<ListedJob>,
    /// How to get the next page; absent on the last.
    next_cursor: Option<String>,
    /// Whether the filter looked as far as it was asked to. If not, its time was over: go on with the cursor.
    complete: bool,
}

/// List jobs.
#[utoipa::path(get, path = "/jobs", tag = "jobs", params(ListParams), responses((status = 200, body = JobPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Params(params): Params<ListParams>,
) -> Result<Answer<JobPage>, Problem> {
    let (mut filter, to_skip) = params.read()?;
    let mut walk = Walk { limit: most(filter.limit), to_skip, jobs: Vec::new() };
    let client = app.db.tenant().await?;
    let walked = async |c: &Client| {
        loop {
            filter.limit = walk.missing();
            let page = rpc::list_jobs(c, tenant.id, &filter).await?;
            filter.cursor = page.next_cursor;
            if walk.is_over(page.jobs, page.next_cursor, page.complete) {
                return Ok((walk, page.next_cursor, page.complete));
            }
        }
    };
    let (walk, end, complete) = client.call(walked).await?;
    let next_cursor = end.map(|id| cursor::write::<End>(&(id, walk.to_skip)));
    let listed = |job: JobSummary| ListedJob { tenant_id: tenant.id, queued_at: job.created_at, job };
    let jobs = walk.jobs.into_iter().map(listed).collect();
    Ok(Answer(JobPage { jobs, next_cursor, complete }))
}

/// A walk to an offset and over the page behind it, by pages of the database.
struct Walk<T> {
    limit: usize,
    to_skip: usize,
    jobs: Vec<T>,
}

impl<T> Walk<T> {
    /// How many jobs to ask for.
    fn missing(&self) -> i32 {
        let missing = self.to_skip + self.limit - self.jobs.len();
        i32::try_from(missing.clamp(1, MOST)).unwrap_or(1)
    }

    /// Takes what was listed. Over when the page is full, nothing is left, or the search ran out of its time: then what
    /// is still to be passed by goes into the cursor.
    fn is_over(&mut self, listed: Vec<T>, next: Option<Uuid>, complete: bool) -> bool {
        let skipped = self.to_skip.min(listed.len());
        self.to_skip -= skipped;
        self.jobs.extend(listed.into_iter().skip(skipped));
        next.is_none() || !complete || self.jobs.len() >= self.limit
    }
}

impl ListParams {
    /// The filter, and how many jobs are to be passed by.
    fn read(self) -> Result<(JobFilter, usize), Problem> {
        let refused =
            |reason, detail| Problem::new(ErrorCode::Refused(Code::InvalidArgument), reason, detail);
        let limit = self.limit.unwrap_or(50);
        if !(1..=MOST).contains(&most(limit)) {
            return Err(refused("limit_out_of_range", "limit is 1 to 1000"));
        }
        let (cursor, to_skip) = match (self.cursor.as_deref().map(cursor::read::<End>), self.offset) {
            (Some(_), Some(_)) => {
                return Err(refused("offset_and_cursor", "give an offset or a cursor, not both"));
            }
            (None, Some(offset)) if offset > MOST => {
                return Err(refused(
                    "offset_out_of_range",
                    "offset is 0 to 1000: beyond that go on with the cursor",
                ));
            }
            (None, offset) => (None, offset.unwrap_or(0)),
            (Some(end), None) => end.map(|(id, to_skip)| (Some(id), to_skip.min(MOST)))?,
        };
        let statuses = self.status.map(|text| text.split(',').map(|s| s.trim().to_owned()).collect());
        let filter = JobFilter {
            statuses,
            job_type: self.job_type,
            queue: self.queue,
            source: self.source,
            created_after: self.created_after,
            created_before: self.created_before,
            limit,
            cursor,
            tag: self.tag,
            payload: self.payload.as_deref().map(object).transpose()?,
            budget_ms: BUDGET_MS,
        };
        Ok((filter, to_skip))
    }
}

fn most(limit: i32) -> usize {
    usize::try_from(limit).unwrap_or(0)
}

/// A JSON object as it was given.
fn object(text: &str) -> Result<Payload, Problem> {
    let payload = serde_json::from_str::<Payload>(text).ok().filter(|json| json.get().starts_with('{'));
    payload.ok_or_else(|| {
        Problem::malformed("payload_malformed", "payload is no JSON object, encoded for a URL")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_passes_its_offset_by_over_pages_and_keeps_what_is_left_of_it() {
        let next = Some(Uuid::nil());
        let mut walk = Walk { limit: 600, to_skip: 900, jobs: Vec::new() };
        assert_eq!(walk.missing(), 1000);
        assert!(!walk.is_over((0..1000).collect(), next, true));
        assert_eq!((walk.missing(), walk.to_skip, walk.jobs.len()), (500, 0, 100));
        assert!(walk.is_over((1000..1500).collect(), next, true));
        assert_eq!(walk.jobs, (900..1500).collect::<Vec<_>>());

        let mut walk = Walk { limit: 10, to_skip: 900, jobs: Vec::new() };
        assert!(walk.is_over((0..300).collect(), next, false));
        assert_eq!((walk.to_skip, walk.jobs.len()), (600, 0));
        let mut walk = Walk { limit: 10, to_skip: 5, jobs: Vec::new() };
        assert!(walk.is_over((0..7).collect(), None, true));
        assert_eq!(walk.jobs, [5, 6]);
    }
}
