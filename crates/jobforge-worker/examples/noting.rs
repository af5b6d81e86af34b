//! A worker whose handler notes its own start and end in a file, for the story of limits: what runs at once is counted by
//! those who run.
//!
//! `noting <slots> <file>`, on the database of `JOBFORGE_DATABASE_URL`. Each note is one line, `+` or `-`, the job's id and
//! the time in microseconds, appended by one write: the lines of all processes stand in the order of the notes.

use std::env;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobforge_worker::{Context, HandlerError, HandlerResult, Outcome, Worker, WorkerConfig};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pause {
    ms: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false).init();
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: noting <slots> <file>");
    let config = WorkerConfig {
        database_url: env::var("JOBFORGE_DATABASE_URL")?,
        queues: vec!["story".to_owned()],
        slots: next()?.parse()?,
        ..WorkerConfig::default()
    };
    let notes = Arc::new(OpenOptions::new().append(true).create(true).open(next()?)?);
    let worker = Worker::builder(config)
        .handle("story.note", move |context: Context, pause: Pause| {
            let notes = Arc::clone(&notes);
            async move { handle(&notes, &context, &pause).await }
        })
        .build()?
        .start()
        .await?;
    println!("the worker is ready");
    worker.ended().await;
    Ok(())
}

async fn handle(notes: &File, context: &Context, pause: &Pause) -> HandlerResult {
    note(notes, '+', context)?;
    tokio::time::sleep(Duration::from_millis(pause.ms)).await;
    note(notes, '-', context)?;
    Ok(Outcome::done())
}

fn note(mut notes: &File, what: char, context: &Context) -> Result<(), HandlerError> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let line = format!("{what} {} {at}\n", context.job_id());
    notes.write_all(line.as_bytes()).map_err(|error| HandlerError::new(format!("note {what}: {error}")))
}
