//! `jobforge queues`: how deep each queue is, what comes and goes, and who serves it.

use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use jobforge_core::QueueSummary;
use jobforge_core::rpc::queue_summary;

use crate::cli::QueuesArgs;
use crate::config::Config;
use crate::output::{Output, per_second, span, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: &QueuesArgs, output: Output) -> Result<ExitCode> {
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let queues = queue_summary(&client, args.counted).await?;
    output.answer(&queues, || match queues.is_empty() {
        true => "no queues yet".to_owned(),
        false => list(&queues),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(queues: &[QueueSummary]) -> String {
    let now = Timestamp::now();
    let rows = queues.iter().map(|queue| {
        let about = if queue.estimated { "~" } else { "" };
        vec![
            queue.queue.clone(),
            state(queue),
            format!("{about}{}", queue.queued),
            format!("{about}{}", queue.ready),
            format!("{about}{}", queue.running),
            format!("{about}{}", queue.dead),
            queue.oldest_ready.map_or_else(|| "-".to_owned(), |at| span(at, now)),
            per_second(queue.enqueued_rate),
            per_second(queue.completed_rate),
            per_second(queue.failed_rate),
            format!("{} ({} asleep)", queue.workers, queue.sleepers),
            queue.slots.to_string(),
        ]
    });
    table(
        &[
            "queue", "state", "queued", "ready", "running", "dead", "oldest", "in/s", "done/s", "failed/s",
            "workers", "slots",
        ],
        rows,
    )
}

fn state(queue: &QueueSummary) -> String {
    match (&queue.paused_by, queue.workers) {
        (Some(by), _) => format!("paused by {by}"),
        (None, 0) => "unserved".to_owned(),
        (None, _) => "served".to_owned(),
    }
}
