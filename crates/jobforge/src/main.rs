//! `jobforge`: one executable, whose commands choose which parts of JobForge a process runs.
//!
//! - `cli.rs`: the command line; `config.rs`: the settings behind it
//! - `commands/`: one file per command
//! - `dev.rs`, `dev/`: what `jobforge dev` is made of; `demo.rs`: the job types it shows
//! - `handlers.rs`: what the worker can run
//! - `target.rs`: which database a command works on, and as whom
//! - `programs.rs`: the commands as jobs that this worker's file names
//! - `secrets.rs`: keys and secrets of the environment; `sealer.rs`: the server's use of them
//! - `tokens.rs`: whose tokens the server takes, and how it has the issuer's keys
//! - `broker.rs`: the broker, where the server is not ready without it
//! - `failure.rs`: how a failure is told, and the exit codes
//! - `logs.rs`, `output.rs`, `signals.rs`: logs to stderr, data to stdout, an orderly end

#![deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "these macros panic where nobody reads: output.rs has what does not"
)]

mod broker;
mod cli;
mod commands;
mod config;
mod demo;
mod dev;
mod failure;
mod handlers;
mod logs;
mod output;
mod programs;
mod sealer;
mod secrets;
mod signals;
mod target;
mod tokens;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::commands::{
    bench, check_commands, config_show, connectors, dead, definitions, dev as dev_command, doctor, enqueue,
    jobs, keys, migrate, openapi,
};
use crate::commands::{pause, pauses, queues, resume, schedule, serve, tenants, tick, work, workers};
use crate::config::{Config, Settings};
use crate::output::Output;

fn main() -> ExitCode {
    // Before any thread is there: a supervisor forks.
    jobforge_connectors::command::supervise_if_asked();
    start()
}

#[tokio::main]
async fn start() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.global.json);
    match run(cli, output).await {
        Ok(code) => code,
        Err(error) => failure::report(&error, output),
    }
}

async fn run(cli: Cli, output: Output) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&cli.global, &cli.command)?;
    logs::start(&settings, &cli.command, output);
    let config: &Config = &settings.config;
    match cli.command {
        Command::Dev(args) => dev_command::run(config, args, output).await,
        Command::Migrate(args) => migrate::run(config, &args, output).await,
        Command::Work(args) => work::run(config, args, output).await,
        Command::Schedule => schedule::run(config).await,
        Command::Serve(args) => serve::run(config, &args, output).await,
        Command::Tick(args) => tick::run(config, &args, output).await,
        Command::Enqueue(args) => enqueue::run(config, args, output).await,
        Command::Jobs(args) => jobs::run(config, args, output).await,
        Command::Queues(args) => queues::run(config, &args, output).await,
        Command::Dead(args) => dead::run(config, args, output).await,
        Command::Workers(args) => workers::run(config, &args, output).await,
        Command::Bench(args) => bench::run(config, &args, output).await,
        Command::Pause(args) => pause::run(config, args, output).await,
        Command::Resume(args) => resume::run(config, &args, output).await,
        Command::Pauses(args) => pauses::run(config, &args, output).await,
        Command::Tenants(args) => tenants::run(config, args, output).await,
        Command::Definitions(args) => definitions::run(config, args, output).await,
        Command::Connectors(args) => connectors::run(config, args, output).await,
        Command::Keys(args) => keys::run(config, args, output).await,
        Command::Openapi => openapi::run(),
        Command::Doctor(args) => doctor::run(config, &args, output).await,
        Command::Commands(args) => check_commands::run(config, &args, output),
        Command::Config(args) => config_show::run(&settings, &args, output),
    }
}
