//! Limits that are full while work waits for long: what was meant to smooth a flow stops it.

use std::time::Duration;

use jiff::Timestamp;
use jobforge_core::Error;
use jobforge_core::rpc::list_starved;
use tokio_postgres::Client;

use super::Check;
use crate::output::span;

const NAME: &str = "starving limits";
const PATIENCE: Duration = Duration::from_secs(15 * 60);

pub(super) async fn check(client: &Client) -> Check {
    Check::made(NAME, look(client).await)
}

async fn look(client: &Client) -> Result<Check, Error> {
    let starved = list_starved(client, PATIENCE, 1000).await?;
    let Some(first) = starved.first() else {
        return Ok(Check::ok(NAME, "no work has waited long for a full limit"));
    };
    let now = Timestamp::now();
    let told = starved.iter().take(5).map(|one| {
        let (kind, name, limit, allowed) = (one.kind, &one.name, &one.limit_name, one.allowed);
        format!("{kind} {name}: {limit} {allowed} is full, work waits for {}", span(one.waits_since, now))
    });
    let (kind, name) = (first.kind, &first.name);
    let flag = if first.limit_name == "rate" { "--rate" } else { "--max-in-flight" };
    Ok(Check::warn(NAME, format!("{} are full while work waits", starved.len())).details(told).advice(
        format!(
            "raise it, `jobforge {kind}s set {name} {flag} N`, or take it away with --clear {}",
            first.limit_name
        ),
    ))
}
