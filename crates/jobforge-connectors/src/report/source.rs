//! Numbers of the tenant's own jobs, counted by the database for the job that makes the report.

use jobforge_core::{Code, CountBounds, Counted, Error, FlowStep, JobGroup, Period, rpc};
use jobforge_worker::{Context, HandlerError};
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::table::{Cell, Table};
use super::{Filled, GroupBy, ReportError, ReportRequest, Source};
use crate::failure::permanent;

/// More jobs than this are not read for one report, nor for longer than this.
const BOUNDS: CountBounds = CountBounds { limit: 100_000, budget_ms: 2000 };

pub(super) async fn fill(ctx: &Context, request: &ReportRequest) -> Result<Filled, HandlerError> {
    let (lease, job) = (ctx.lease(), ctx.job_ref());
    let period = Period { from: request.from, to: request.to };
    match request.source {
        Some(Source::Jobs) => {
            let group = job_group(request.group_by).map_err(permanent)?;
            let counted = ctx
                .call("count_jobs", |client| async move {
                    rpc::count_jobs(&*client, (lease, job), group, period, BOUNDS).await
                })
                .await
                .map_err(classed)?;
            let columns =
                ["jobs", "waiting", "running", "succeeded", "failed", "dead", "canceled", "mean_seconds"];
            filled(group.as_str(), &columns, counted, |n| {
                let mean = n.mean_seconds.map(|mean| (mean * 1000.0).round() / 1000.0);
                let counts = [n.jobs, n.waiting, n.running, n.succeeded, n.failed, n.dead, n.canceled];
                (n.key, counts.iter().map(cell).chain([cell(&mean)]).collect())
            })
        }
        Some(Source::Flow) => {
            let step = flow_step(request.group_by).map_err(permanent)?;
            let counted = ctx
                .call("count_flow", |client| async move {
                    rpc::count_flow(&*client, lease, job, step, period).await
                })
                .await
                .map_err(classed)?;
            let columns = ["enqueued", "succeeded", "failed", "canceled", "estimated"];
            filled(step.as_str(), &columns, counted, |n| {
                let counts = [n.enqueued, n.succeeded, n.failed, n.canceled];
                (n.key, counts.iter().map(cell).chain([cell(&n.estimated)]).collect())
            })
        }
        None => Err(permanent(ReportError::OneOfTwo)),
    }
}

/// Whether the source, if there is one, is grouped this way.
pub(super) fn check(request: &ReportRequest) -> Result<(), ReportError> {
    match request.source {
        Some(Source::Jobs) => job_group(request.group_by).map(drop),
        Some(Source::Flow) => flow_step(request.group_by).map(drop),
        None => Ok(()),
    }
}

/// The table of what was counted: the key, then the numbers.
fn filled<T>(
    key: &str,
    columns: &[&str],
    counted: Counted<T>,
    row: impl Fn(T) -> (String, Vec<Result<Cell, serde_json::Error>>),
) -> Result<Filled, HandlerError> {
    let cells = |count: T| {
        let (key, numbers) = row(count);
        std::iter::once(cell(&key)).chain(numbers).collect::<Result<Vec<Cell>, _>>()
    };
    let rows = counted.groups.into_iter().map(cells).collect::<Result<Vec<_>, _>>()?;
    let columns = std::iter::once(key).chain(columns.iter().copied()).map(str::to_owned).collect();
    Ok(Filled { table: Table { columns, rows }, at: counted.at, truncated: !counted.complete })
}

fn cell<T: Serialize>(value: &T) -> Result<Cell, serde_json::Error> {
    to_raw_value(value).map(Cell)
}

fn job_group(group_by: Option<GroupBy>) -> Result<JobGroup, ReportError> {
    match group_by {
        None | Some(GroupBy::Type) => Ok(JobGroup::Type),
        Some(GroupBy::Queue) => Ok(JobGroup::Queue),
        Some(GroupBy::Status) => Ok(JobGroup::Status),
        Some(GroupBy::Day) => Ok(JobGroup::Day),
        Some(other) => Err(grouping("jobs", other, "type, queue, status, day")),
    }
}

fn flow_step(group_by: Option<GroupBy>) -> Result<FlowStep, ReportError> {
    match group_by {
        Some(GroupBy::Hour) => Ok(FlowStep::Hour),
        None | Some(GroupBy::Day) => Ok(FlowStep::Day),
        Some(other) => Err(grouping("flow", other, "hour, day")),
    }
}

fn grouping(from: &'static str, group_by: GroupBy, known: &'static str) -> ReportError {
    ReportError::Grouping { from, group_by: format!("{group_by:?}").to_lowercase(), known }
}

/// A period that makes no sense will not make sense later.
fn classed(error: Error) -> HandlerError {
    match error.code() {
        Some(Code::InvalidArgument) => permanent(error),
        _ => HandlerError::from(error),
    }
}
