//! `jobforge migrate`: bring the schema up to date, say how it stands, print it.

use std::process::ExitCode;

use anyhow::Result;
use jobforge_core::migrate::{self, FileState, Report, Status};
use serde_json::{Value, json};

use crate::cli::{MigrateAction, MigrateArgs};
use crate::config::Config;
use crate::failure::Usage;
use crate::output::{Output, local, print, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: &MigrateArgs, output: Output) -> Result<ExitCode> {
    if args.print {
        print(&migrate::print())?;
        return Ok(ExitCode::SUCCESS);
    }
    match args.action {
        MigrateAction::Status if args.functions => {
            Err(Usage::new("--functions is for `jobforge migrate up`: looking changes nothing").into())
        }
        MigrateAction::Status => status(config, output).await,
        MigrateAction::Up if args.dry_run => plan(&admin_url(config)?, output).await,
        MigrateAction::Up if args.functions => told(&migrate::reapply(&admin_url(config)?).await?, output),
        MigrateAction::Up => told(&migrate::up(&admin_url(config)?).await?, output),
    }
}

/// The way around a pooler, if there is one: a migration holds its lock for longer than a statement.
fn admin_url(config: &Config) -> Result<String> {
    let url = config.direct_url.clone().or_else(|| config.database_url.clone());
    url.ok_or_else(|| {
        Usage::new("no database: pass --database-url with a login that has CREATEROLE and owns the database")
            .into()
    })
}

fn told(report: &Report, output: Output) -> Result<ExitCode> {
    let applied: Vec<Value> = report
        .applied
        .iter()
        .map(|file| json!({ "version": file.version, "name": file.name, "took_ms": file.took.as_millis() }))
        .collect();
    let json = json!({ "applied": applied, "functions_changed": report.functions_changed });
    output.answer(&json, || {
        let mut lines: Vec<String> = report
            .applied
            .iter()
            .map(|file| format!("applied {} in {} ms", file.name, file.took.as_millis()))
            .collect();
        lines.extend(report.functions_changed.iter().map(|name| format!("applied {name}")));
        if lines.is_empty() {
            lines.push("nothing to do: the schema is up to date".to_owned());
        }
        lines.join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn plan(url: &str, output: Output) -> Result<ExitCode> {
    let plan = migrate::plan(url).await?;
    let json = json!({ "migrations": plan.migrations, "functions": plan.functions });
    output.answer(&json, || {
        if plan.is_empty() {
            return "nothing to do: the schema is up to date".to_owned();
        }
        let names = plan.migrations.iter().chain(&plan.functions);
        names.map(|name| format!("would apply {name}")).collect::<Vec<_>>().join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Fails when schema and program do not fit, so that a script can ask.
async fn status(config: &Config, output: Output) -> Result<ExitCode> {
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let status = migrate::status(&client).await?;
    let files = || status.migrations.iter().chain(&status.functions);
    let json: Vec<Value> =
        files().map(|(name, state)| json!({ "name": name, "state": word(state) })).collect();
    let json = json!({ "current": status.is_current(), "files": json, "newer": status.newer });
    output.answer(&json, || {
        let rows = files().map(|(name, state)| vec![name.clone(), text(state)]);
        format!("{}\n\n{}", table(&["file", "state"], rows), verdict(&status))
    })?;
    Ok(if status.is_current() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn word(state: &FileState) -> &'static str {
    match state {
        FileState::Applied { .. } => "applied",
        FileState::Pending => "pending",
        FileState::Differs => "differs",
    }
}

fn text(state: &FileState) -> String {
    match state {
        FileState::Applied { at } => format!("applied {}", local(*at)),
        FileState::Pending => "pending".to_owned(),
        FileState::Differs => "another text was applied".to_owned(),
    }
}

fn verdict(status: &Status) -> String {
    if status.is_current() {
        "The schema is up to date.".to_owned()
    } else if !status.newer.is_empty() {
        format!("The database is ahead of this program ({}): upgrade the program.", status.newer.join(", "))
    } else if status.migrations.iter().any(|(_, state)| matches!(state, FileState::Differs)) {
        "No migration mends this: use the program that made the schema, or one released after it.".to_owned()
    } else {
        "The schema is not up to date: jobforge migrate".to_owned()
    }
}
