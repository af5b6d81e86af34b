//! `jobforge bench`: how fast is this database at enqueueing in bulk and at draining? A quick look with our own
//! client and worker; `make bench` compares with others.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use jobforge_core::rpc::{enqueue_jobs, upsert_definition};
use jobforge_core::{Definition, NewJob};
use jobforge_worker::{Context, HandlerResult, Outcome, Worker, WorkerConfig};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio_postgres::Client;

use crate::cli::BenchArgs;
use crate::commands::doctor::wal::wal_bytes;
use crate::commands::work::worker_config;
use crate::config::Config;
use crate::output::{Output, say, watched};
use crate::signals::Signals;
use crate::target::{Purpose, Target};

const TYPE: &str = "bench.noop";
const QUEUE: &str = "bench";
const BATCH: u32 = 1000;
/// Without a single completion for this long the drain has failed.
const STALLED: Duration = Duration::from_secs(30);

/// One workload's figures.
#[derive(Serialize)]
struct Figure {
    workload: &'static str,
    jobs: u32,
    seconds: f64,
    jobs_per_second: f64,
    wal_bytes_per_job: f64,
}

pub(crate) async fn run(config: &Config, args: &BenchArgs, output: Output) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let operator = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let definition = Definition {
        description: Some("Does nothing, for `jobforge bench`".to_owned()),
        queue: Some(QUEUE.to_owned()),
        retention: Some("day".to_owned()),
        ..Definition::new(TYPE)
    };
    upsert_definition(&operator, &definition).await?;
    let figures = tokio::select! {
        figures = measure(config, args) => figures?,
        () = signals.next() => bail!("interrupted; jobs of the queue {QUEUE} may be left: the next run drains them"),
    };
    output.answer(&json!({ "figures": figures, "slots": args.slots }), || {
        let lines = figures.iter().map(|figure| {
            format!(
                "{:<14} {:>9} jobs in {:>6.2} s: {:>8.0} jobs/s, {:>6.0} bytes of WAL per job",
                figure.workload,
                figure.jobs,
                figure.seconds,
                figure.jobs_per_second,
                figure.wal_bytes_per_job
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    })?;
    say(&format!(
        "One client, one worker with {} slots; whatever else the server does counts in. `make bench` is the full comparison.",
        args.slots
    ));
    Ok(ExitCode::SUCCESS)
}

async fn measure(config: &Config, args: &BenchArgs) -> Result<Vec<Figure>> {
    let producer = Target::resolve(config, Purpose::Produce)?;
    let client = producer.connect().await?;
    let tenant = producer.tenant()?;
    let job = NewJob::new(TYPE, &json!({ "n": 1 }))?;
    let bulk = timed("bulk enqueue", args.jobs, &client, async {
        let bar = bar("enqueueing", args.jobs);
        let mut left = args.jobs;
        while left > 0 {
            let batch = vec![job.clone(); usize::try_from(left.min(BATCH))?];
            for answer in enqueue_jobs(&client, tenant, &batch).await? {
                if let Err(refusal) = answer {
                    bail!("a job was refused: {} {}", refusal.code, refusal.reason);
                }
            }
            left -= left.min(BATCH);
            bar.set_position(u64::from(args.jobs - left));
        }
        bar.finish_and_clear();
        Ok(())
    })
    .await?;
    let target = Target::resolve(config, Purpose::Work)?;
    let settings = worker_config(config, &target, Some(vec![QUEUE.to_owned()]), Some(args.slots))?;
    let drained = timed("drain", args.jobs, &client, drain(settings, args.jobs)).await?;
    Ok(vec![bulk, drained])
}

/// Runs a worker until it has completed this many jobs.
async fn drain(settings: WorkerConfig, jobs: u32) -> Result<()> {
    let worker = Worker::builder(settings).handle(TYPE, noop).build()?.start().await?;
    let bar = bar("draining", jobs);
    let (mut done, mut moved) = (0, Instant::now());
    while done < u64::from(jobs) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let completed = worker.stats().completed;
        if completed > done {
            (done, moved) = (completed, Instant::now());
            bar.set_position(done);
        } else if moved.elapsed() > STALLED {
            bail!(
                "the drain stands still after {done} of {jobs} jobs: another worker may serve the queue {QUEUE}"
            );
        }
    }
    bar.finish_and_clear();
    worker.shutdown().await;
    Ok(())
}

async fn noop(_: Context, _: IgnoredAny) -> HandlerResult {
    Ok(Outcome::done())
}

async fn timed(
    workload: &'static str,
    jobs: u32,
    client: &Client,
    work: impl Future<Output = Result<()>>,
) -> Result<Figure> {
    let (wal, began) = (wal_bytes(client).await?, Instant::now());
    work.await?;
    let seconds = began.elapsed().as_secs_f64();
    let wal = u32::try_from(wal_bytes(client).await? - wal).unwrap_or(u32::MAX);
    let per_job = |value: f64| value / f64::from(jobs);
    Ok(Figure {
        workload,
        jobs,
        seconds,
        jobs_per_second: f64::from(jobs) / seconds.max(0.001),
        wal_bytes_per_job: per_job(f64::from(wal)),
    })
}

fn bar(what: &'static str, jobs: u32) -> ProgressBar {
    if !watched() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(u64::from(jobs)).with_message(what);
    // The template is fixed; without a style the bar still moves.
    match ProgressStyle::with_template("{msg:>11} {wide_bar} {pos}/{len} {per_sec}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
