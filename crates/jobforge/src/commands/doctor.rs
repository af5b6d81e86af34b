//! `jobforge doctor`: is the database fit, is the schema right, are tenants kept apart, does somebody look
//! after it? Each check says what it found and what to do; looking changes nothing.
//!
//! The checks ask the catalogs themselves where they can, because the database may be too broken for functions to be
//! called. What a login may not see is skipped with a note: no failure of its own, and nothing to be called well.

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
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    let healthy = !failed && !is_unknown(&checks);
    let answer = json!({ "healthy": healthy, "skipped": skipped(&checks), "checks": checks });
    output.answer(&answer, || text(&checks))?;
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

/// The checks without which nobody can say that tenants are kept apart, or that there is anything at all.
const ESSENTIAL: [&str; 3] = ["schema", "row security", "isolation probe"];

/// What could not be looked at.
fn skipped(checks: &[Check]) -> Vec<&'static str> {
    checks.iter().filter(|check| check.verdict == Verdict::Skip).map(|check| check.name).collect()
}

/// Whether what matters most could not be looked at.
fn is_unknown(checks: &[Check]) -> bool {
    skipped(checks).iter().any(|name| ESSENTIAL.contains(name))
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
    lines.push(String::new());
    lines.push(conclusion(checks));
    lines.join("\n")
}

/// All of it in a sentence: what was not looked at is named, and never called well.
fn conclusion(checks: &[Check]) -> String {
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let skipped = skipped(checks);
    let came_to = match (count(Verdict::Fail), count(Verdict::Warn)) {
        (0, _) if is_unknown(checks) => {
            "Not known to be well: what matters most could not be looked at.".to_owned()
        }
        (0, 0) if skipped.is_empty() => "All is well.".to_owned(),
        (0, 0) => "No fault was found.".to_owned(),
        (0, warned) => format!("Works, with {warned} warnings."),
        (failed, warned) => format!("Not well: {failed} failures, {warned} warnings."),
    };
    match skipped.as_slice() {
        [] => came_to,
        [one] => format!("{came_to} 1 check was skipped: {one}."),
        some => format!("{came_to} {} checks were skipped: {}.", some.len(), some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_looked_at_is_called_well() {
        let told = |of: &[(&'static str, Verdict)]| {
            let checks: Vec<Check> =
                of.iter().map(|(name, verdict)| Check::new(name, *verdict, "")).collect();
            (conclusion(&checks), is_unknown(&checks))
        };
        let ok = ("schema", Verdict::Ok);
        let (leases, pauses) = (("stuck leases", Verdict::Skip), ("forgotten pauses", Verdict::Skip));
        assert_eq!(told(&[ok]), ("All is well.".to_owned(), false));
        let one = "No fault was found. 1 check was skipped: stuck leases.";
        assert_eq!(told(&[ok, leases]), (one.to_owned(), false));
        let some = "Works, with 1 warnings. 2 checks were skipped: stuck leases, forgotten pauses.";
        assert_eq!(told(&[ok, ("workers", Verdict::Warn), leases, pauses]), (some.to_owned(), false));
        for name in ESSENTIAL {
            let (words, unknown) = told(&[(name, Verdict::Skip), ("workers", Verdict::Ok)]);
            assert!(unknown && words.starts_with("Not known to be well") && words.contains(name), "{words}");
        }
        let (words, _) = told(&[("login", Verdict::Fail), ("schema", Verdict::Skip)]);
        assert_eq!(words, "Not well: 1 failures, 0 warnings. 1 check was skipped: schema.");
    }
}
