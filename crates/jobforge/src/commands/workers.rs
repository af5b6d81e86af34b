//! `jobforge workers`: who works, and who went silent.

use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use jobforge_core::Worker;
use jobforge_core::rpc::list_workers;

use crate::cli::WorkersArgs;
use crate::config::Config;
use crate::output::{Output, span, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: &WorkersArgs, output: Output) -> Result<ExitCode> {
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let workers = list_workers(&client, args.limit).await?;
    output.answer(&workers, || {
        if workers.is_empty() {
            return "no workers yet".to_owned();
        }
        let now = Timestamp::now();
        let rows = workers.iter().map(|worker| {
            vec![
                worker.worker_id.clone(),
                state(worker).to_owned(),
                format!("{}/{}", worker.running, worker.slots),
                worker.queues.join(","),
                shortened(&worker.types),
                worker.version.clone(),
                span(worker.started_at, worker.stopped_at.unwrap_or(now)),
                format!("{} ago", span(worker.last_seen, now)),
                Some(worker.metadata.get()).filter(|text| *text != "{}").unwrap_or_default().to_owned(),
            ]
        });
        let header = ["worker", "state", "running", "queues", "types", "version", "up", "seen", "metadata"];
        table(&header, rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn state(worker: &Worker) -> &'static str {
    match (worker.stopped_at, worker.stale) {
        (Some(_), _) => "stopped",
        (None, true) => "stale",
        (None, false) => "alive",
    }
}

/// The first names, and how many more there are: a worker may know hundreds of types.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(",");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} +{more}"),
    }
}
