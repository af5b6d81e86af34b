//! Jobs that run on a lease which is gone: neither a report nor the reaper ends them.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::rpc::list_stranded;
use tokio_postgres::Client;

use super::Check;

const NAME: &str = "stranded jobs";
/// An examination may be asked for at any load.
const BUDGET: Duration = Duration::from_millis(500);
const MOST: i32 = 1000;

pub(super) async fn check(client: &Client) -> Check {
    Check::made(NAME, look(client).await)
}

async fn look(client: &Client) -> Result<Check, Error> {
    let found = list_stranded(client, BUDGET, MOST).await?;
    if found.jobs.is_empty() {
        return Ok(Check::ok(
            NAME,
            match found.complete {
                true => "every running job has its lease",
                false => "every running job has its lease, in the part that was looked at",
            },
        ));
    }
    let least = if found.complete { "" } else { "at least " };
    let told = found.jobs.iter().take(5).map(|job| {
        format!("job {} ({}) of tenant {}, lease {}", job.id, job.job_type, job.tenant_id, job.lease_id)
    });
    Ok(Check::fail(NAME, format!("{least}{} run on leases that are gone", found.jobs.len()))
        .details(told)
        .advice("run `jobforge schedule`: its next prune gives them back; tell us how it came"))
}
