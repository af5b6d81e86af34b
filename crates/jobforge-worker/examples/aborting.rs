//! A worker with one handler that takes the whole process down, for the story of the killer job.
//!
//! `aborting <lease seconds> <slots>`, on the database of `JOBFORGE_DATABASE_URL`. An example, because no
//! product should abort when a payload asks for it.

use std::env;
use std::error::Error;
use std::time::Duration;

use jobforge_worker::{Context, HandlerResult, Outcome, Worker, WorkerConfig};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
struct Innocent {
    ms: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false).init();
    let mut arguments = env::args().skip(1);
    let mut number = || arguments.next().ok_or("usage: aborting <lease seconds> <slots>");
    let config = WorkerConfig {
        database_url: env::var("JOBFORGE_DATABASE_URL")?,
        queues: vec!["story".to_owned()],
        lease_seconds: number()?.parse()?,
        slots: number()?.parse()?,
        ..WorkerConfig::default()
    };
    let worker = Worker::builder(config)
        .handle("story.innocent", innocent)
        .handle("story.killer", killer)
        .build()?
        .start()
        .await?;
    println!("the worker is ready");
    worker.ended().await;
    Ok(())
}

async fn innocent(_: Context, Innocent { ms }: Innocent) -> HandlerResult {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(Outcome::done())
}

/// What a stack overflow, a fault in foreign code or the kernel's memory killer would do.
async fn killer(_: Context, _: IgnoredAny) -> HandlerResult {
    std::process::abort()
}
