//! `jobforge jobs`: look at jobs, say why they wait, cancel them, run them again.

use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use jobforge_core::rpc::{
    cancel_job, explain_job, get_job, job_summary, list_attempts, list_jobs, retry_job,
};
use jobforge_core::{ArtifactRef, Attempt, Flow, Job, JobFilter, JobSummary, Payload, Reason, Summary};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::cli::{JobsAction, JobsArgs, JobsListArgs};
use crate::commands::result;
use crate::config::Config;
use crate::output::{Output, local, one_line, per_second, span, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: JobsArgs, output: Output) -> Result<ExitCode> {
    let target = Target::resolve(config, Purpose::Produce)?;
    let tenant = target.tenant()?;
    let client = target.connect().await?;
    match args.action {
        JobsAction::List(args) => {
            let page = list_jobs(&client, tenant, &filter(args)).await?;
            output.answer(&page, || {
                let list = list(&page.jobs);
                match page.next_cursor {
                    Some(cursor) => format!("{list}\n\nMore: --cursor {cursor}"),
                    None => list,
                }
            })?;
        }
        JobsAction::Show { id } => show_job(&client, tenant, id, output).await?,
        JobsAction::Result { id, out } => {
            let asked = result::Asked { tenant, id, out };
            result::run(config, &target, &client, asked, output).await?;
        }
        JobsAction::Explain { id } => {
            let reasons = explain_job(&client, tenant, id).await?;
            output.answer(&reasons, || explain(&reasons))?;
        }
        JobsAction::Summary => {
            let summary = job_summary(&client, tenant, COUNTED).await?;
            output.answer(&summary, || summarise(&summary))?;
        }
        JobsAction::Cancel { id, reason } => {
            let done = cancel_job(&client, tenant, id, reason.as_deref()).await?;
            let json = json!({ "id": id, "status": done.status, "cancel_requested": done.cancel_requested });
            output.answer(&json, || match done.cancel_requested {
                true => format!("{id} is running; its worker was asked to stop it"),
                false => format!("{id} is {}", done.status),
            })?;
        }
        JobsAction::Retry { id } => {
            let done = retry_job(&client, tenant, id).await?;
            let json = json!({ "id": id, "status": done.status, "run_at": done.run_at });
            output.answer(&json, || format!("{id} is {} and due now", done.status))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// So many live jobs are counted one by one.
const COUNTED: i32 = 10_000;
pub(super) async fn show_job(client: &Client, tenant: Uuid, id: Uuid, output: Output) -> Result<()> {
    let job = get_job(client, tenant, id).await?;
    let attempts = list_attempts(client, tenant, id).await?;
    output.answer(&Shown { job: &job, attempts: &attempts }, || show(&job, &attempts))
}

/// Typed, because a `Value` in between would change numbers: 1.10 stays 1.10.
#[derive(Serialize)]
struct Shown<'a> {
    job: &'a Job,
    attempts: &'a [Attempt],
}

fn filter(args: JobsListArgs) -> JobFilter {
    JobFilter {
        statuses: args.status,
        job_type: args.job_type,
        queue: args.queue,
        limit: args.limit,
        cursor: args.cursor,
        ..JobFilter::default()
    }
}

fn list(jobs: &[JobSummary]) -> String {
    if jobs.is_empty() {
        return "no jobs".to_owned();
    }
    let now = Timestamp::now();
    let rows = jobs.iter().map(|job| {
        let end = job.finished_at.or((job.status == "running").then_some(now));
        let took = job.started_at.zip(end).map(|(from, to)| span(from, to));
        vec![
            job.id.to_string(),
            job.job_type.clone(),
            job.queue.clone(),
            job.status.clone(),
            format!("{}/{}", job.failures, job.max_attempts),
            format!("{} ago", span(job.created_at, now)),
            took.unwrap_or_else(|| "-".to_owned()),
            job.error.as_deref().map(first_line).unwrap_or_default(),
        ]
    });
    table(&["id", "type", "queue", "status", "failures", "enqueued", "took", "error"], rows)
}

/// What fits into a list; the whole error is in `jobs show`.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn show(job: &Job, attempts: &[Attempt]) -> String {
    let mut lines = vec![format!("{} {}", job.job_type, job.id)];
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            // Only an error has lines of its own.
            let value = if name == "error" { value } else { one_line(&value) };
            lines.push(format!("  {name:<12} {value}"));
        }
    };
    let asked = if job.cancel_requested { " (asked to stop)" } else { "" };
    fact("status", Some(format!("{}{asked}", job.status)));
    fact("queue", Some(format!("{}, priority {}", job.queue, job.priority)));
    fact(
        "failures",
        Some(format!("{} of {} allowed, {} deaths", job.failures, job.max_attempts, job.deaths)),
    );
    fact("enqueued", Some(format!("{} by {}", local(job.created_at), maker(job))));
    fact("due", Some(local(job.run_at)));
    fact("started", job.started_at.map(|at| format!("{}, attempt {}", local(at), job.attempt)));
    fact("finished", job.finished_at.map(local));
    fact("worker", job.worker_id.clone());
    fact("progress", progress(job));
    fact("dedupe key", job.dedupe_key.clone());
    fact("concurrency key", job.concurrency_key.clone());
    fact("correlation", job.correlation_id.clone());
    fact("payload", Some(content(&job.payload)));
    fact("result", job.result.as_ref().map(content));
    fact("error", job.error.clone());
    if !attempts.is_empty() {
        lines.push(String::new());
        lines.push("Attempts".to_owned());
    }
    lines.extend(attempts.iter().flat_map(attempt));
    lines.join("\n")
}

/// A payload or result, or where it is.
fn content(json: &Payload) -> String {
    match ArtifactRef::in_row(json) {
        Ok(Some(artifact)) => format!("{} bytes in the artifact store ({})", artifact.bytes(), artifact.id()),
        _ => json.get().to_owned(),
    }
}

fn explain(reasons: &[Reason]) -> String {
    let lines = reasons.iter().map(|reason| {
        let until = reason.until.map(|at| format!(" (until {})", local(at))).unwrap_or_default();
        format!("{:<21} {}{until}", reason.reason, reason.says)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn summarise(summary: &Summary) -> String {
    let capped = if summary.capped { " or more" } else { "" };
    let states = [
        ("ready", summary.ready),
        ("running", summary.running),
        ("scheduled", summary.scheduled),
        ("blocked", summary.blocked),
        ("failed", summary.failed),
        ("dead", summary.dead),
    ];
    let mut lines: Vec<String> =
        states.into_iter().map(|(name, count)| format!("{name:<12} {count}{capped}")).collect();
    let mut fact = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{name:<12} {value}")));
    };
    fact("oldest", summary.oldest_ready.map(|at| format!("due for {}", span(at, Timestamp::now()))));
    fact("last hour", summary.hour.map(flow));
    fact("last day", summary.day.map(flow));
    fact(
        "a second",
        summary.enqueued_rate.map(|rate| {
            let (done, failed) = (per_second(summary.completed_rate), per_second(summary.failed_rate));
            format!("{} enqueued, {done} completed, {failed} failed", per_second(Some(rate)))
        }),
    );
    fact("drained in", summary.drain_seconds.map(|seconds| format!("{seconds:.0} s at this pace")));
    if summary.sampled_at.is_none() {
        lines.push("no rates: nobody samples (run `jobforge schedule`)".to_owned());
    }
    lines.join("\n")
}

fn flow(flow: Flow) -> String {
    let Flow { enqueued, completed, failed, canceled } = flow;
    format!("{enqueued} enqueued, {completed} completed, {failed} failed, {canceled} canceled")
}

fn maker(job: &Job) -> String {
    let by = job.source_ref.as_deref().or(job.created_by.as_deref());
    by.map_or_else(|| job.source.clone(), |by| format!("{} ({by})", job.source))
}

fn progress(job: &Job) -> Option<String> {
    let percent = job.progress_percent?;
    Some(format!("{percent:.0} % {}", job.progress_message.as_deref().unwrap_or_default()))
}

#[derive(Deserialize)]
struct Line {
    at: Timestamp,
    level: String,
    message: String,
}

fn attempt(attempt: &Attempt) -> Vec<String> {
    let took =
        attempt.started_at.zip(attempt.finished_at).map(|(from, to)| format!(" after {}", span(from, to)));
    let started = attempt.started_at.map(local).unwrap_or_default();
    let mut lines =
        vec![format!("  {:>3}  {started}  {}{}", attempt.number, attempt.status, took.unwrap_or_default())];
    let class = attempt.error_class.as_deref().map(|class| format!(" ({class})")).unwrap_or_default();
    lines.extend(attempt.error.iter().map(|error| format!("       {error}{class}")));
    let ended = match (attempt.exit_code, attempt.signal) {
        (Some(code), _) => Some(format!(", exit code {code}")),
        (_, Some(signal)) => Some(format!(", killed by signal {signal}")),
        (None, None) => None,
    };
    lines.extend(attempt.pid.map(|pid| format!("       process {pid}{}", ended.unwrap_or_default())));
    for tail in [&attempt.stdout_tail, &attempt.stderr_tail].into_iter().flatten() {
        lines.extend(tail.lines().map(|line| format!("       | {line}")));
    }
    // A log that does not parse is shown as it is, not hidden.
    match attempt.log.as_ref().map(|log| (log, serde_json::from_str::<Vec<Line>>(log.get()))) {
        Some((_, Ok(log))) => {
            lines.extend(
                log.iter()
                    .map(|line| format!("       {} {:<5} {}", local(line.at), line.level, line.message)),
            );
        }
        Some((raw, Err(_))) => lines.push(format!("       {raw}")),
        None => {}
    }
    lines
}
