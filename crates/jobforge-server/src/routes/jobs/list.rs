//! A page of jobs, newest first.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{JobFilter, JobSummary, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::cursor;
use crate::extract::{Answer, Params};
use crate::problem::Problem;

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
    /// Enqueued at or after this time.
    created_after: Option<Timestamp>,
    /// Enqueued before this time.
    created_before: Option<Timestamp>,
    /// The most jobs, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPage {
    /// The jobs, newest first.
    jobs: Vec<JobSummary>,
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
    let filter = params.filter()?;
    let client = app.db.tenant().await?;
    let answer = rpc::list_jobs(&*client, tenant.id, &filter).await;
    let page = client.done(answer)?;
    Ok(Answer(JobPage {
        jobs: page.jobs,
        next_cursor: page.next_cursor.map(|id| cursor::write(&id)),
        complete: page.complete,
    }))
}

impl ListParams {
    fn filter(self) -> Result<JobFilter, Problem> {
        let statuses = self.status.map(|text| text.split(',').map(|s| s.trim().to_owned()).collect());
        Ok(JobFilter {
            statuses,
            job_type: self.job_type,
            queue: self.queue,
            source: self.source,
            created_after: self.created_after,
            created_before: self.created_before,
            limit: self.limit.unwrap_or(50),
            cursor: self.cursor.as_deref().map(cursor::read::<Uuid>).transpose()?,
            ..JobFilter::default()
        })
    }
}
