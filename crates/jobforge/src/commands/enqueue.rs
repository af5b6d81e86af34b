//! `jobforge enqueue`: make a job, or many of a kind.

use std::fs;
use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use jiff::Timestamp;
use jobforge_artifacts::{Artifacts, EnqueueError, Stowed, enqueue_stowed, stow};
use jobforge_core::rpc::{enqueue_job, enqueue_jobs, validate_job};
use jobforge_core::{Enqueued, Error, NewJob, Payload};
use jobforge_worker::Publisher;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

use super::from_now;
use crate::cli::EnqueueArgs;
use crate::config::Config;
use crate::failure::Usage;
use crate::output::{Output, local, watched};
use crate::target::{Purpose, Target};

/// Jobs of one statement.
const BATCH: u32 = 1000;

pub(crate) async fn run(config: &Config, args: EnqueueArgs, output: Output) -> Result<ExitCode> {
    let target = Target::resolve(config, Purpose::Produce)?;
    let tenant = target.tenant()?;
    let count = args.count;
    let publisher = publisher(config, args.hint)?;
    let job = new_job(args)?;
    let store = config.artifacts.open(target.artifacts_dir())?;
    let mut client = target.connect().await?;
    validate_job(&client, &job).await?;
    let new = match store.filter(|store| job.payload.get().len() > store.threshold()) {
        Some(store) => {
            let job_type = job.job_type.clone();
            let stowed = stow(&client, &*store, tenant, job).await.map_err(of_core)?;
            let made = enqueue_large(&mut client, tenant, &stowed, count).await?;
            tell(&job_type, &made, output)?;
            made.iter().find(|made| !made.existing).map(|made| made.id)
        }
        None if count > 1 => {
            let ids = enqueue_many(&client, tenant, &job, count).await?;
            tell_many(&job.job_type, &ids, output)?;
            ids.first().copied()
        }
        None => {
            let made = enqueue_job(&client, tenant, &job).await?;
            let new = (!made.existing).then_some(made.id);
            tell(&job.job_type, &[made], output)?;
            new
        }
    };
    // One message wakes every worker, however many jobs there are.
    if let (Some(publisher), Some(id)) = (publisher, new) {
        publisher.hint(id);
        publisher.close().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Who tells the workers, if somebody wants it.
fn publisher(config: &Config, asked: bool) -> Result<Option<Publisher>> {
    match config.broker.named()? {
        Some(broker) if asked || config.broker.publish => Ok(Some(Publisher::start(broker))),
        None if asked => {
            Err(Usage::new("--hint needs a broker: set JOBFORGE_BROKER__URL or broker.url").into())
        }
        _ => Ok(None),
    }
}

fn new_job(args: EnqueueArgs) -> Result<NewJob> {
    let payload = payload(&args.job_type, &args.payload)?;
    let delayed = args.delay.map(|delay| from_now("--delay", delay)).transpose()?;
    Ok(NewJob {
        queue: args.queue,
        priority: args.priority,
        run_at: args.run_at.or(delayed),
        idempotency_key: args.idempotency_key,
        dedupe_key: args.dedupe_key,
        concurrency_key: args.concurrency_key,
        ..NewJob::raw(args.job_type, payload)
    })
}

/// The payload's text, as it is: numbers are not to be changed on the way.
fn payload(job_type: &str, given: &str) -> Result<Payload> {
    let parsed: Result<Payload, _> = serde_json::from_str(&given_text("payload", given)?);
    parsed.map_err(|source| Error::Payload { job_type: job_type.to_owned(), source }.into())
}

/// A text as arguments give it: itself, `@file`, or `-` for stdin.
pub(super) fn given_text(what: &str, given: &str) -> Result<String> {
    match given.strip_prefix('@') {
        Some(file) => fs::read_to_string(file).with_context(|| format!("cannot read the {what} in {file}")),
        None if given == "-" => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.with_context(|| format!("cannot read the {what} from stdin"))?;
            Ok(text)
        }
        None => Ok(given.to_owned()),
    }
}

/// In batches, with a bar for whoever watches. What was enqueued before a failure stays.
async fn enqueue_many(client: &Client, tenant: Uuid, job: &NewJob, count: u32) -> Result<Vec<Uuid>> {
    let bar = if watched() { ProgressBar::new(u64::from(count)) } else { ProgressBar::hidden() };
    let mut ids = Vec::with_capacity(usize::try_from(count)?);
    let mut left = count;
    while left > 0 {
        let batch = vec![job.clone(); usize::try_from(left.min(BATCH))?];
        for answer in enqueue_jobs(client, tenant, &batch).await? {
            let made = answer.map_err(|refusal| Error::Refused {
                operation: "enqueue_jobs",
                code: refusal.code,
                message: format!("{}, after {} jobs", refusal.reason.replace('_', " "), ids.len()),
                reason: refusal.reason,
            })?;
            ids.push(made.id);
        }
        left -= left.min(BATCH);
        bar.set_position(u64::from(count - left));
    }
    bar.finish_and_clear();
    Ok(ids)
}

/// One by one: each holds the object that all of them name.
async fn enqueue_large(
    client: &mut Client,
    tenant: Uuid,
    stowed: &Stowed,
    count: u32,
) -> Result<Vec<Enqueued>> {
    let mut made = Vec::new();
    for _ in 0..count {
        let transaction = client.transaction().await?;
        made.push(enqueue_stowed(&transaction, tenant, stowed).await.map_err(of_core)?);
        transaction.commit().await?;
    }
    Ok(made)
}

/// What the database said is told with its code.
fn of_core(error: EnqueueError) -> anyhow::Error {
    match error {
        EnqueueError::Core(error) => error.into(),
        other => other.into(),
    }
}

fn tell(job_type: &str, made: &[Enqueued], output: Output) -> Result<()> {
    let [one] = made else {
        return tell_many(job_type, &made.iter().map(|made| made.id).collect::<Vec<_>>(), output);
    };
    let json = json!({
        "id": one.id, "status": one.status, "existing": one.existing, "run_at": one.run_at,
    });
    output.answer(&json, || match (one.existing, one.run_at > Timestamp::now()) {
        (true, _) => format!("{job_type} is there already: {} ({})", one.id, one.status),
        (false, true) => format!("enqueued {job_type}: {} (runs at {})", one.id, local(one.run_at)),
        (false, false) => format!("enqueued {job_type}: {}", one.id),
    })
}

fn tell_many(job_type: &str, ids: &[Uuid], output: Output) -> Result<()> {
    let json = json!({ "count": ids.len(), "ids": ids });
    output.answer(&json, || format!("enqueued {} jobs of {job_type}", ids.len()))
}
