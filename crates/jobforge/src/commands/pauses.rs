//! `jobforge pauses`: what is held back now.

use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use jobforge_core::rpc::list_pauses;

use crate::cli::PausesArgs;
use crate::config::Config;
use crate::output::{Output, local, span, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: &PausesArgs, output: Output) -> Result<ExitCode> {
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let pauses = list_pauses(&client, args.limit).await?;
    output.answer(&pauses, || {
        if pauses.is_empty() {
            return "nothing is paused".to_owned();
        }
        let now = Timestamp::now();
        let rows = pauses.iter().map(|pause| {
            vec![
                pause.kind.to_string(),
                pause.name.clone(),
                format!("{} ago", span(pause.paused_at, now)),
                pause.until.map_or_else(|| "resumed".to_owned(), local),
                pause.author.clone(),
                pause.reason.clone(),
            ]
        });
        table(&["kind", "name", "paused", "until", "by", "reason"], rows)
    })?;
    Ok(ExitCode::SUCCESS)
}
