//! Pauses that somebody forgot: older than a day, with work that waits behind them.

use std::time::Duration;

use jiff::Timestamp;
use jobforge_core::Error;
use jobforge_core::rpc::list_forgotten_pauses;
use tokio_postgres::Client;

use super::Check;
use crate::output::span;

const NAME: &str = "forgotten pauses";
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn check(client: &Client) -> Check {
    Check::made(NAME, look(client).await)
}

async fn look(client: &Client) -> Result<Check, Error> {
    let pauses = list_forgotten_pauses(client, OLD, 1000).await?;
    let Some(first) = pauses.first() else {
        return Ok(Check::ok(NAME, "no work waits behind a pause of more than a day"));
    };
    let now = Timestamp::now();
    let told = pauses.iter().take(5).map(|pause| {
        let reason = if pause.reason.is_empty() { "no reason given" } else { &pause.reason };
        let since = span(pause.paused_at, now);
        format!("{} {}, paused for {since} by {}: {reason}", pause.kind, pause.name, pause.author)
    });
    let (kind, name) = (first.kind, &first.name);
    Ok(Check::warn(NAME, format!("{} hold work back for more than a day", pauses.len()))
        .details(told)
        .advice(format!("if it is over: `jobforge resume {kind} {name}`")))
}
