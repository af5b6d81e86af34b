//! `jobforge resume`: end a pause.

use std::process::ExitCode;

use anyhow::Result;
use jobforge_core::PauseKind;
use jobforge_core::rpc::resume;
use serde_json::json;

use super::pause::author;
use crate::cli::ResumeArgs;
use crate::config::Config;
use crate::output::Output;
use crate::target::{Purpose, Target};

/// What was not paused is no failure: it goes on, as was asked.
pub(crate) async fn run(config: &Config, args: &ResumeArgs, output: Output) -> Result<ExitCode> {
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let (kind, name) = (PauseKind::from(args.held.kind), args.held.name());
    let was_paused = resume(&client, kind, &name, Some(&author(&args.held))).await?;
    output.answer(&json!({ "kind": kind, "name": name, "was_paused": was_paused }), || match was_paused {
        true => format!("{kind} {name} goes on"),
        false => format!("{kind} {name} was not paused"),
    })?;
    Ok(ExitCode::SUCCESS)
}
