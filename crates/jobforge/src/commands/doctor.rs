//! `jobforge doctor`: is the database fit, is the schema right, are tenants kept apart, does somebody look
//! after it? Each check says what it found and what to do; looking changes nothing.
//!
//! The checks ask the catalogs themselves where they can, because the database may be too broken for functions to be
//! called. What a login may not see is skipped with a note, never a failure.

mod bloat;
mod drift;
mod fleet;
mod indexes;
mod isolation;
mod leases;
mod limits;
mod partitions;
mod pauses;
mod server;
mod snapshots;
mod stranded;
pub(crate) mod wal;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use jobforge_core::migrate;
use serde::Serialize;
use serde_json::json;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::cli::DoctorArgs;
use crate::config::Config;
use crate::output::Output;
use crate::target::{Purpose, Target};

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// Somebody should look at it.
    Warn,
    /// It is wrong, or will be soon.
    Fail,
    /// This login cannot tell.
    Skip,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, found: impl Into<String>) -> Check {
        Check { name, verdict, found: found.into(), details: Vec::new(), advice: None }
    }

    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check::new(name, Verdict::Ok, found)
    }

    fn warn(name: &'static str, found: impl Into<String>) -> Check {
        Check::new(name, Verdict::Warn, found)
    }

    fn fail(name: &'static str, found: impl Into<String>) -> Check {
        Check::new(name, Verdict::Fail, found)
    }

    fn skip(name: &'static str, found: impl Into<String>) -> Check {
        Check::new(name, Verdict::Skip, found)
    }

    fn details(mut self, details: impl IntoIterator<Item = String>) -> Check {
        self.details.extend(details);
        self
    }

    fn advice(mut self, advice: impl Into<String>) -> Check {
        self.advice = Some(advice.into());
        self
    }

    /// The check, or why it could not be made.
    fn made(name: &'static str, made: Result<Check, jobforge_core::Error>) -> Check {
        made.unwrap_or_else(|error| {
            if let jobforge_core::Error::Database { source, .. } = &error
                && source.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
            {
                return Check::skip(name, "this login may not look").advice("ask as a member of jf_operator");
            }
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            Check::fail(name, format!("could not be checked: {error}{cause}"))
        })
    }
}

pub(crate) async fn run(config: &Config, args: &DoctorArgs, output: Output) -> Result<ExitCode> {
    let target = Target::resolve(config, Purpose::Operate)?;
    let mut client = target.connect().await?;
    let old = args.snapshot_age.unsigned_abs();
    let checks = examine(&mut client, old, target.tenant().ok()).await;
    let healthy = checks.iter().all(|check| check.verdict != Verdict::Fail);
    output.answer(&json!({ "healthy": healthy, "checks": checks }), || text(&checks))?;
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(client: &mut Client, old_snapshot: Duration, tenant: Option<Uuid>) -> Vec<Check> {
    let mut checks = server::checks(client).await;
    let (schema, is_there) = server::schema(client).await;
    checks.push(schema);
    if !is_there {
        return checks;
    }
    checks.extend(isolation::checks(client).await);
    match migrate::drift(client).await {
        Ok(drift) => {
            checks.push(indexes::check(&drift));
            checks.extend(drift::checks(&drift));
        }
        Err(error) => checks.push(Check::made("drift", Err(error))),
    }
    checks.extend(bloat::checks(client).await);
    checks.push(snapshots::check(client, old_snapshot).await);
    checks.extend(partitions::checks(client).await);
    checks.extend(fleet::checks(client, tenant).await);
    checks.push(leases::check(client).await);
    checks.push(stranded::check(client).await);
    checks.push(limits::check(client).await);
    checks.push(pauses::check(client).await);
    checks
}

fn text(checks: &[Check]) -> String {
    let mut lines = Vec::new();
    for check in checks {
        let mark = match check.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "WARN",
            Verdict::Fail => "FAIL",
            Verdict::Skip => "skip",
        };
        lines.push(format!("{mark}  {:<19} {}", check.name, check.found));
        lines.extend(check.details.iter().map(|detail| format!("      {:<19} · {detail}", "")));
        lines.extend(check.advice.iter().map(|advice| format!("      {:<19} → {advice}", "")));
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let (failed, warned) = (count(Verdict::Fail), count(Verdict::Warn));
    lines.push(String::new());
    lines.push(match (failed, warned) {
        (0, 0) => "All is well.".to_owned(),
        (0, warned) => format!("Works, with {warned} warnings."),
        (failed, warned) => format!("Not well: {failed} failures, {warned} warnings."),
    });
    lines.join("\n")
}
