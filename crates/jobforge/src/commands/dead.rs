//! `jobforge dead`: look at dead letters, put them back to work, undo that.

use std::process::ExitCode;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use jiff::Timestamp;
use jobforge_core::rpc::{
    get_bulk, group_dead_letters, list_bulk_results, list_bulks, list_dead_letters, redrive_jobs, start_bulk,
    step_bulk, undo_bulk,
};
use jobforge_core::{
    Bulk, BulkFilter, BulkKind, BulkResult, Code, DeadLetter, DeadLetterFilter, DeadLetterGroup, Error,
    Redrive, RedriveAnswer, Redriven, ResultsOf,
};
use serde::Serialize;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::cli::{DeadAction, DeadArgs, DeadFilterArgs, DeadRedriveArgs};
use crate::commands::enqueue::given_text;
use crate::commands::jobs::{first_line, show_job};
use crate::config::Config;
use crate::failure::Usage;
use crate::output::{Output, local, span, table, watched};
use crate::target::{Purpose, Target};

/// Jobs of one step: short transactions, and a bar that moves.
const STEP: i32 = 500;
/// Results shown with an operation.
const SHOWN: i32 = 100;

pub(crate) async fn run(config: &Config, args: DeadArgs, output: Output) -> Result<ExitCode> {
    let target = Target::resolve(config, Purpose::Produce)?;
    let tenant = target.tenant()?;
    let client = target.connect().await?;
    match args.action {
        DeadAction::List(args) => {
            let filter = DeadLetterFilter { fingerprint: args.fingerprint, ..filter(args.filter) };
            let page =
                list_dead_letters(&client, tenant, &filter, args.limit, args.cursor.as_deref()).await?;
            output.answer(&page, || match &page.next_cursor {
                Some(cursor) => format!("{}\n\nMore: --cursor {cursor}", letters(&page.jobs)),
                None => letters(&page.jobs),
            })?;
        }
        DeadAction::Groups(args) => {
            let groups = group_dead_letters(&client, tenant, &filter(args.filter), args.limit).await?;
            output.answer(&groups, || causes(&groups))?;
        }
        DeadAction::Show { id } => show(&client, tenant, id, output).await?,
        DeadAction::Redrive(args) => return redrive(&client, tenant, args, output).await,
        DeadAction::Resume { id } => {
            let bulk = get_bulk(&client, tenant, id).await?;
            let bulk = walk(&client, tenant, bulk).await?;
            output.answer(&bulk, || came_to(&bulk))?;
            return Ok(outcome(&bulk));
        }
        DeadAction::Undo { id } => {
            let bulk = undo(&client, tenant, id).await?;
            output.answer(&bulk, || {
                format!(
                    "dead letters again: {}; kept, for they have started since: {}",
                    bulk.undone, bulk.kept
                )
            })?;
        }
        DeadAction::Operations { limit } => {
            let bulks = list_bulks(&client, tenant, limit, None).await?;
            output.answer(&bulks, || operations(&bulks))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(args: DeadFilterArgs) -> DeadLetterFilter {
    DeadLetterFilter {
        fingerprint: None,
        job_type: args.job_type,
        queue: args.queue,
        failed_after: args.failed_after,
        failed_before: args.failed_before,
    }
}

async fn redrive(client: &Client, tenant: Uuid, args: DeadRedriveArgs, output: Output) -> Result<ExitCode> {
    let patch = args.patch.as_deref().map(|given| {
        let text = given_text("patch", given)?;
        serde_json::from_str(&text).context("the patch is not JSON")
    });
    let how = Redrive {
        patch: patch.transpose()?,
        max_attempts: args.max_attempts,
        reason: args.reason,
        dry_run: args.dry_run,
    };
    if !args.ids.is_empty() {
        let done = redrive_jobs(client, tenant, &Redriven::Jobs(&args.ids), &how).await?;
        output.answer(&done, || verdicts(&done))?;
        let none = done.jobs.iter().all(|job| job.verdict == "skipped");
        return Ok(if none { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let which = BulkFilter {
        statuses: args.all.then(|| vec!["failed".to_owned(), "dead".to_owned()]),
        job_type: args.filter.job_type,
        queue: args.filter.queue,
        fingerprint: args.fingerprint,
        tag: args.tag,
        finished_after: args.filter.failed_after,
        finished_before: args.filter.failed_before,
        ..BulkFilter::default()
    };
    if serde_json::to_value(&which)? == serde_json::json!({}) {
        return Err(
            Usage::new("which dead letters? Name jobs, a filter such as --fingerprint, or --all").into()
        );
    }
    let bulk = start_bulk(client, tenant, &BulkKind::Redrive(how), &which).await?;
    let bulk = walk(client, tenant, bulk).await?;
    output.answer(&bulk, || came_to(&bulk))?;
    Ok(outcome(&bulk))
}

/// A redrive that took none of what matched has failed. Of operations of other kinds, which are resumed too, whoever asked
/// for them heard it where they did.
fn outcome(bulk: &Bulk) -> ExitCode {
    let none = bulk.kind == "redrive" && bulk.done == 0 && bulk.skipped > 0;
    if none { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Steps until nothing is left, with a bar for whoever watches. What was done before a failure stays done, and
/// the operation can be resumed.
async fn walk(client: &Client, tenant: Uuid, mut bulk: Bulk) -> Result<Bulk> {
    let bar = bar(bulk.matched, bulk.status == "running");
    while bulk.status == "running" {
        bar.set_position(u64::try_from(bulk.done + bulk.skipped)?);
        let id = bulk.id;
        bulk = step_bulk(client, tenant, id, STEP)
            .await
            .with_context(|| format!("interrupted; go on with: jobforge dead resume {id}"))?;
    }
    bar.finish_and_clear();
    Ok(bulk)
}

async fn undo(client: &Client, tenant: Uuid, id: Uuid) -> Result<Bulk> {
    let mut bulk = undo_bulk(client, tenant, id, STEP).await?;
    let bar = bar(bulk.done, bulk.status == "undoing");
    while bulk.status == "undoing" {
        bar.set_position(u64::try_from(bulk.undone + bulk.kept)?);
        bulk = undo_bulk(client, tenant, id, STEP).await?;
    }
    bar.finish_and_clear();
    Ok(bulk)
}

fn bar(total: i64, long: bool) -> ProgressBar {
    let total = u64::try_from(total).unwrap_or_default();
    if watched() && long { ProgressBar::new(total) } else { ProgressBar::hidden() }
}

/// Ids are of one kind: an operation is looked for first, then a job.
async fn show(client: &Client, tenant: Uuid, id: Uuid, output: Output) -> Result<()> {
    let operation = match get_bulk(client, tenant, id).await {
        Err(error @ Error::Refused { .. }) if error.code() == Some(Code::NotFound) => {
            return show_job(client, tenant, id, output).await;
        }
        answer => answer?,
    };
    let results = list_bulk_results(client, tenant, ResultsOf::Operation(id), SHOWN, None).await?;
    output.answer(&Shown { operation: &operation, results: &results }, || describe(&operation, &results))
}

/// Typed, because a `Value` in between would change numbers.
#[derive(Serialize)]
struct Shown<'a> {
    operation: &'a Bulk,
    results: &'a [BulkResult],
}

fn letters(jobs: &[DeadLetter]) -> String {
    if jobs.is_empty() {
        return "no dead letters".to_owned();
    }
    let now = Timestamp::now();
    let rows = jobs.iter().map(|job| {
        vec![
            job.id.to_string(),
            job.job_type.clone(),
            job.queue.clone(),
            job.class.clone(),
            job.fingerprint.clone(),
            format!("{} ago", span(job.finished_at, now)),
            job.error.as_deref().map(first_line).unwrap_or_default(),
        ]
    });
    table(&["id", "type", "queue", "class", "fingerprint", "died", "error"], rows)
}

fn causes(groups: &[DeadLetterGroup]) -> String {
    if groups.is_empty() {
        return "no dead letters".to_owned();
    }
    let now = Timestamp::now();
    let rows = groups.iter().map(|group| {
        vec![
            group.fingerprint.clone(),
            group.jobs.to_string(),
            group.job_type.clone(),
            group.class.clone(),
            format!("{} ago", span(group.first_at, now)),
            format!("{} ago", span(group.last_at, now)),
            group.message.as_deref().map(first_line).unwrap_or_default(),
        ]
    });
    let list = table(&["fingerprint", "jobs", "type", "class", "first", "last", "error"], rows);
    let capped = groups.iter().any(|group| group.capped);
    if capped { format!("{list}\n\nOf the last dead letters only: there are more.") } else { list }
}

fn verdicts(done: &RedriveAnswer) -> String {
    let rows = done.jobs.iter().map(|job| {
        vec![
            job.id.to_string(),
            job.verdict.clone(),
            why(job.error_code.as_deref(), job.error_reason.as_deref()),
        ]
    });
    let list = table(&["id", "verdict", "why"], rows);
    match done.operation_id {
        Some(id) => format!("{list}\n\nUndo: jobforge dead undo {id}"),
        None => list,
    }
}

fn why(code: Option<&str>, reason: Option<&str>) -> String {
    [code, reason].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn came_to(bulk: &Bulk) -> String {
    let more = if bulk.matched_capped { " at least" } else { "" };
    if bulk.dry_run {
        return format!("{} dead letters match{more}; nothing was done", bulk.matched);
    }
    let skipped = match bulk.skipped {
        0 => String::new(),
        skipped => format!(", {skipped} skipped (why: jobforge dead show {})", bulk.id),
    };
    let undo = match bulk.done {
        0 => String::new(),
        _ => format!("\nUndo: jobforge dead undo {}", bulk.id),
    };
    format!("{} redriven{skipped}{undo}", bulk.done)
}

fn operations(bulks: &[Bulk]) -> String {
    if bulks.is_empty() {
        return "no operations".to_owned();
    }
    let rows = bulks.iter().map(|bulk| {
        let kind = if bulk.dry_run { format!("{} (dry run)", bulk.kind) } else { bulk.kind.clone() };
        vec![
            bulk.id.to_string(),
            kind,
            bulk.status.clone(),
            bulk.done.to_string(),
            bulk.skipped.to_string(),
            bulk.undone.to_string(),
            local(bulk.started_at),
            bulk.actor.clone(),
            first_line(&bulk.reason),
        ]
    });
    table(&["id", "kind", "status", "done", "skipped", "undone", "started", "by", "reason"], rows)
}

fn describe(bulk: &Bulk, results: &[BulkResult]) -> String {
    let mut lines = vec![format!("{} {}", bulk.kind, bulk.id)];
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push(format!("  {name:<12} {value}"));
        }
    };
    let dry = if bulk.dry_run { " (dry run)" } else { "" };
    let capped = if bulk.matched_capped { " at least" } else { "" };
    fact("status", Some(format!("{}{dry}", bulk.status)));
    fact(
        "jobs",
        Some(format!("{} matched{capped}, {} done, {} skipped", bulk.matched, bulk.done, bulk.skipped)),
    );
    fact("undone", bulk.undone_at.map(|at| format!("{}, {} kept, {}", bulk.undone, bulk.kept, local(at))));
    fact("started", Some(format!("{} by {}", local(bulk.started_at), bulk.actor)));
    fact("finished", bulk.finished_at.map(local));
    fact("reason", (!bulk.reason.is_empty()).then(|| bulk.reason.clone()));
    fact("filter", Some(bulk.filter.get().to_owned()));
    fact("patch", bulk.patch.as_ref().map(|patch| patch.get().to_owned()));
    fact("max attempts", bulk.max_attempts.map(|max| max.to_string()));
    if !results.is_empty() {
        let rows = results.iter().map(|result| {
            vec![
                result.job_id.to_string(),
                result.verdict.clone(),
                why(result.error_code.as_deref(), result.error_reason.as_deref()),
            ]
        });
        lines.push(String::new());
        lines.push(table(&["id", "verdict", "why"], rows));
    }
    lines.join("\n")
}
