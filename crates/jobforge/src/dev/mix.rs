//! A few demo jobs each second, of every kind, so that there is something to see.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use jobforge_core::connect::{Backoff, connect};
use jobforge_core::rpc::enqueue_job;
use jobforge_core::{Error, NewJob};
use serde_json::json;
use tokio::sync::watch;
use tokio_postgres::Client;

use crate::demo::TENANT;
use crate::dev::summary::Counts;

/// Three to four a second.
const EVERY: Duration = Duration::from_millis(300);
/// Beyond this many dead letters no more are made: nobody takes them away.
const DEAD_LETTERS: usize = 20;

/// Enqueues until dropped; a database that is away is waited for.
pub(crate) async fn run(url: String, counts: watch::Receiver<Counts>) {
    let mut backoff = Backoff::new();
    let mut number = 0;
    loop {
        if let Err(error) = enqueue(&url, &counts, &mut number, &mut backoff).await {
            tracing::warn!(%error, "no demo jobs for a moment");
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// Ends with the error that stops it.
async fn enqueue(
    url: &str,
    counts: &watch::Receiver<Counts>,
    number: &mut u32,
    backoff: &mut Backoff,
) -> Result<(), Error> {
    let (client, connection) = connect(url).await?;
    tokio::spawn(connection);
    loop {
        let more_dead = counts.borrow().dead_letters < DEAD_LETTERS;
        enqueue_next(&client, *number, more_dead).await?;
        *number = number.wrapping_add(1);
        backoff.reset();
        tokio::time::sleep(EVERY).await;
    }
}

async fn enqueue_next(client: &Client, number: u32, more_dead: bool) -> Result<(), Error> {
    let job = match number % 20 {
        2 | 12 => NewJob::new("demo.flaky", &json!({ "fail_times": 1 + number % 3 }))?,
        5 | 15 => NewJob::new("demo.progress", &json!({ "steps": 10, "ms": 150 }))?,
        7 | 17 => {
            let soon = Timestamp::now() + SignedDuration::from_secs(5);
            NewJob::new("demo.echo", &json!({ "n": number, "note": "ran five seconds later" }))?.run_at(soon)
        }
        9 if more_dead => NewJob::new("demo.fail", &json!({ "message": "an address that does not exist" }))?,
        0 | 3 | 6 | 10 | 13 | 16 => NewJob::new("demo.sleep", &json!({ "ms": 200 + number % 7 * 200 }))?,
        _ => NewJob::new("demo.echo", &json!({ "n": number }))?,
    };
    enqueue_job(client, TENANT, &job.source("system").source_ref("demo")).await?;
    Ok(())
}
