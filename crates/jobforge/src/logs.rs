//! Log lines to stderr: for people on a terminal, a JSON object per line elsewhere.

mod json_lines;

use std::io;

use tracing_subscriber::EnvFilter;

use self::json_lines::JsonLines;
use crate::cli::Command;
use crate::config::{LogFormat, Settings};
use crate::output::{Output, watched};

/// What is logged by the commands whose answer is what counts.
const QUIET: &str = "warn";

/// Starts logging; called once.
pub(crate) fn start(settings: &Settings, command: &Command, output: Output) {
    let log = &settings.config.log;
    let talks = matches!(command, Command::Work(_) | Command::Schedule);
    let chosen = settings.origin("log.filter") != "default";
    let filter = if talks || chosen { log.filter.as_str() } else { QUIET };
    let json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => talks && (output.is_json() || !watched()),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::builder().parse_lossy(with_quiet_client(filter)))
        .with_writer(io::stderr)
        .with_ansi(watched());
    if json {
        builder.event_format(JsonLines).init();
    } else {
        builder.with_target(false).init();
    }
}

/// What the broker's client says of each try that fails is told once by whoever tries.
fn with_quiet_client(filter: &str) -> String {
    if filter.contains("lapin") { filter.to_owned() } else { format!("{filter},lapin=off") }
}
