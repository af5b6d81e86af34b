//! `jobforge-bench`: the workloads of the performance notes, for JobForge, the raw-SQL limit and a peer, interleaved
//! on one Postgres, because on a small noisy machine only ratios inside one run mean anything.

mod cli;
mod connection;
mod contenders;
mod cost;
mod figures;
mod growth;
mod http;
mod judgement;
mod metric;
mod payload;
mod pickup;
mod plot;
mod postgres_cpu;
mod private_postgres;
mod report;
mod server;
mod statistics;
mod tournament;
mod workloads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use jiff::Timestamp;
use tokio::task::spawn_blocking;

use crate::cli::Cli;
use crate::contenders::Contender;
use crate::metric::Workload;
use crate::private_postgres::PrivatePostgres;
use crate::report::{ContenderSettings, Report};
use crate::server::Server;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    // Returning, not exiting, on Ctrl-C lets the private Postgres be stopped and its files removed.
    tokio::select! {
        result = bench(&cli) => result,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

async fn bench(cli: &Cli) -> Result<ExitCode> {
    let plan = cli.plan();
    let shrunk = plan.shrunk();
    ensure!(
        !cli.judge || shrunk.is_empty(),
        "--judge: the bounds are those of full sizes, and these are smaller: {}",
        shrunk.join(", ")
    );
    let mut contenders = chosen(cli)?;
    let started_at = Timestamp::now();
    let path = cli.json.clone().unwrap_or_else(|| default_path(started_at));

    let (_private, url) = postgres(cli).await?;
    let server = Server::connect(&url).await?;
    let postgres = server.settings().await?;
    let mut figures = tournament::run(&plan, &server, &mut contenders).await?;
    let findings = growth::run(&plan, &server, &mut figures).await?;
    let contenders = contenders.iter().map(|contender| ContenderSettings::of(contender.as_ref())).collect();
    let report = Report { started_at: started_at.to_string(), plan, postgres, contenders, figures, findings };

    println!("{}", report.settings());
    for payload in &report.plan.payloads {
        println!("\nPayload {}, runs: {}, median (min–max)", payload.label(), report.plan.runs);
        println!("{}", report.table(*payload));
    }
    for stray in report.findings.strays() {
        println!("{stray}");
    }
    report.write(&path)?;
    if let Some(directory) = &cli.plots {
        growth::write_plots(directory, &report)?;
    }
    eprintln!("samples: {}", path.display());
    if !cli.judge {
        return Ok(ExitCode::SUCCESS);
    }
    let (told, code) = report.verdict();
    println!("{told}");
    Ok(code)
}

/// The server asked for, or one of our own, which lives as long as the first value.
async fn postgres(cli: &Cli) -> Result<(Option<PrivatePostgres>, String)> {
    if let Some(url) = &cli.database_url {
        return Ok((None, url.clone()));
    }
    let pg_bin = cli.pg_bin.clone();
    let private = spawn_blocking(move || PrivatePostgres::start(pg_bin)).await??;
    let url = private.superuser_url();
    Ok((Some(private), url))
}

fn chosen(cli: &Cli) -> Result<Vec<Box<dyn Contender>>> {
    let mut contenders = contenders::all();
    for name in &cli.contenders {
        let known: Vec<_> = contenders.iter().map(|contender| contender.name()).collect();
        ensure!(
            known.contains(&name.as_str()),
            "there is no contender {name}; there are: {}",
            known.join(", ")
        );
    }
    let compares = cli.plan().workloads.iter().any(|workload| Workload::COMPARED.contains(workload));
    contenders.retain(|contender| {
        let chosen = cli.contenders.is_empty() || cli.contenders.iter().any(|name| name == contender.name());
        // Growth is JobForge's alone.
        if compares { chosen } else { contender.name() == "jobforge" }
    });
    Ok(contenders)
}

/// Beside this crate, wherever the program is called from.
fn default_path(started_at: Timestamp) -> PathBuf {
    let name = started_at.strftime("%Y-%m-%dT%H%M%SZ.json").to_string();
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name)
}
