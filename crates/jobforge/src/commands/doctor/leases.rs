//! Leases that ran out and that nobody took back: their jobs neither run nor wait.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::{list_stuck_leases, system_state};
use tokio_postgres::Client;

use super::Check;
use crate::output::local;

const NAME: &str = "stuck leases";
/// The reaper comes at the next expiry; a busy one needs a little longer.
const OVERDUE: Duration = Duration::from_secs(30);

pub(super) async fn check(client: &Client) -> Check {
    Check::made(NAME, look(client).await)
}

async fn look(client: &Client) -> Result<Check, Error> {
    let stuck = list_stuck_leases(client, OVERDUE, 1000).await?;
    let Some(first) = stuck.first() else {
        return Ok(Check::ok(NAME, "every lease that ran out was taken back"));
    };
    let jobs: i32 = stuck.iter().map(|lease| lease.jobs).sum();
    let found = format!(
        "{} ran out by {} and were not taken back, with {jobs} jobs",
        stuck.len(),
        local(first.expires_at)
    );
    let told = stuck.iter().take(5).map(|lease| {
        let worker = lease.worker_id.as_deref().unwrap_or("an unknown worker");
        format!(
            "lease {} of {worker}, {} jobs, ran out {}",
            lease.lease_id,
            lease.jobs,
            local(lease.expires_at)
        )
    });
    let state = system_state(client, 1).await?;
    let advice = if state.leads {
        format!(
            "{} leads but does not reap: look at its log, and for a session that keeps the lease locked",
            state.leader_holder
        )
    } else {
        "nobody leads: run `jobforge schedule`, it takes them back".to_owned()
    };
    Ok(Check::fail(NAME, found).details(told).advice(advice))
}
