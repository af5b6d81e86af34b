//! Job types to try things with: they echo, sleep, fail and tell how far they are.

use std::time::Duration;

use jobforge_core::{Definition, Payload};
use jobforge_worker::{
    Context, HandlerError, HandlerResult, Level, Outcome, Worker, WorkerBuilder, WorkerConfig, WorkerError,
};
use serde::Deserialize;
use uuid::{Uuid, uuid};

/// The tenant of the demo jobs; fixed, so that examples can name it.
pub(crate) const TENANT: Uuid = uuid!("d0000000-0000-4000-8000-000000000001");

/// A worker that runs the demo types.
pub(crate) fn worker(config: WorkerConfig) -> Result<Worker, WorkerError> {
    builder(config).build()
}

/// The same, to be restricted to some of its types.
pub(crate) fn builder(config: WorkerConfig) -> WorkerBuilder {
    Worker::builder(config)
        .handle("demo.echo", echo)
        .handle("demo.sleep", sleep)
        .handle("demo.flaky", flaky)
        .handle("demo.fail", fail)
        .handle("demo.progress", progress)
}

/// The demo types as the database should know them.
pub(crate) fn definitions() -> Vec<Definition> {
    let described = |key: &str, description: &str| Definition {
        description: Some(description.to_owned()),
        retry_preset: Some("quick".to_owned()),
        retention: Some("day".to_owned()),
        ..Definition::new(key)
    };
    vec![
        described("demo.echo", "Returns its payload"),
        described("demo.sleep", "Sleeps for {\"ms\": n}; stops when it is canceled"),
        described("demo.flaky", "Fails {\"fail_times\": n} times, then succeeds"),
        described("demo.fail", "Fails: {\"permanent\": true} for good, false again and again"),
        described("demo.progress", "Takes {\"steps\": n} steps of {\"ms\": n} and tells how far it is"),
    ]
}

async fn echo(_: Context, payload: Payload) -> HandlerResult {
    Ok(Outcome::Complete(Some(payload)))
}

#[derive(Deserialize)]
struct Sleep {
    ms: u64,
}

async fn sleep(context: Context, Sleep { ms }: Sleep) -> HandlerResult {
    match pause(&context, ms).await {
        true => Ok(Outcome::complete(&format!("slept {ms} ms"))?),
        false => Ok(Outcome::Cancel { reason: "told to stop while asleep".to_owned() }),
    }
}

#[derive(Deserialize)]
struct Flaky {
    fail_times: i32,
}

async fn flaky(context: Context, Flaky { fail_times }: Flaky) -> HandlerResult {
    let failures = context.failures();
    if failures < fail_times {
        return Err(HandlerError::new(format!("failure {} of {fail_times}, as asked for", failures + 1)));
    }
    Ok(Outcome::complete(&format!("succeeded after {failures} failures"))?)
}

#[derive(Deserialize)]
struct Fail {
    #[serde(default = "yes")]
    permanent: bool,
    #[serde(default = "as_asked")]
    message: String,
}

fn yes() -> bool {
    true
}

fn as_asked() -> String {
    "failed, as asked for".to_owned()
}

async fn fail(context: Context, Fail { permanent, message }: Fail) -> HandlerResult {
    context.log(Level::Warn, "about to fail").await;
    let error = HandlerError::new(message);
    Err(if permanent { error.permanent() } else { error })
}

#[derive(Deserialize)]
struct Progress {
    #[serde(default = "five")]
    steps: u16,
    #[serde(default = "a_fifth")]
    ms: u64,
}

fn five() -> u16 {
    5
}

fn a_fifth() -> u64 {
    200
}

async fn progress(context: Context, Progress { steps, ms }: Progress) -> HandlerResult {
    for step in 1..=steps {
        if !pause(&context, ms).await {
            return Ok(Outcome::Cancel { reason: format!("told to stop before step {step} of {steps}") });
        }
        let percent = 100.0 * f32::from(step) / f32::from(steps);
        context.progress(percent, format!("step {step} of {steps}")).await;
        context.log(Level::Info, format!("step {step} done")).await;
    }
    Ok(Outcome::complete(&format!("{steps} steps"))?)
}

/// Whether the pause passed undisturbed; `false` when the handler was told to stop.
async fn pause(context: &Context, ms: u64) -> bool {
    tokio::select! {
        () = context.cancellation().cancelled() => false,
        () = tokio::time::sleep(Duration::from_millis(ms)) => true,
    }
}
