//! `jobforge commands check`: what a worker would run as jobs, or why it would not start.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{CommandsAction, CommandsArgs};
use crate::config::Config;
use crate::failure::Usage;
use crate::output::{Output, table};
use crate::programs;

pub(crate) fn run(config: &Config, args: &CommandsArgs, output: Output) -> Result<ExitCode> {
    let CommandsAction::Check { file } = &args.action;
    let Some(path) = file.as_ref().or(config.worker.commands_file.as_ref()) else {
        let text = "there is no file of commands: name one with --file, or set worker.commands_file";
        return Err(Usage::new(text).into());
    };
    match programs::read(path) {
        Ok(programs) => {
            let (file, warnings) = (programs.file(), programs.warnings());
            let commands: Vec<(&str, PathBuf)> =
                file.keys().map(|key| (key, file.program(key).unwrap_or(path).to_owned())).collect();
            let json: Vec<Value> =
                commands.iter().map(|(key, program)| json!({ "key": key, "program": program })).collect();
            let json = json!({ "file": path, "commands": json, "problems": [], "warnings": warnings });
            output.answer(&json, || {
                let rows = commands
                    .iter()
                    .map(|(key, program)| vec![(*key).to_owned(), program.display().to_string()]);
                let warnings = warnings.iter().map(|warning| format!("\nwarning: {warning}"));
                table(&["command", "program"], rows) + &warnings.collect::<String>()
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            let json = json!({ "file": path, "commands": [], "problems": problems, "warnings": [] });
            output.answer(&json, || {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                lines.join("\n")
            })?;
            Ok(ExitCode::from(1))
        }
    }
}
