//! Does somebody lead, who works, and who was lost?

use std::time::Duration;

use jiff::Timestamp;
use jobforge_core::Error;
use jobforge_core::rpc::{list_workers, system_state};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Check;
use super::server::failed;
use crate::output::span;

/// A scheduler asks for the leadership every three seconds unless it is told otherwise.
const LEADER_PATIENCE: Duration = Duration::from_secs(4);

pub(super) async fn checks(client: &mut Client, tenant: Option<Uuid>) -> Vec<Check> {
    vec![
        Check::made("scheduler", leader(client).await),
        Check::made("workers", workers(client).await),
        Check::made("lost attempts", lost(client, tenant).await),
    ]
}

/// A leader that died or has just begun is followed within moments.
async fn leader(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "scheduler";
    let deadline = Instant::now() + LEADER_PATIENCE;
    loop {
        let state = system_state(client, 1).await?;
        if state.leads {
            return Ok(Check::ok(NAME, format!("{} leads, term {}", state.leader_holder, state.leader_term)));
        }
        if Instant::now() >= deadline {
            let silent = span(state.leader_alive_at, Timestamp::now());
            return Ok(Check::fail(NAME, format!("nobody leads; the last one was heard of {silent} ago"))
                .advice("run `jobforge schedule`: without it nothing takes lost jobs back"));
        }
        sleep(Duration::from_millis(250)).await;
    }
}

async fn workers(client: &Client) -> Result<Check, Error> {
    const NAME: &str = "workers";
    let workers = list_workers(client, 1000).await?;
    let silent: Vec<&str> =
        workers.iter().filter(|worker| worker.stale).map(|worker| worker.worker_id.as_str()).collect();
    let alive = workers.iter().filter(|worker| !worker.stale && worker.stopped_at.is_none()).count();
    let found = format!("{alive} alive, {} silent", silent.len());
    Ok(if alive == 0 {
        Check::warn(NAME, found).advice("run `jobforge work`")
    } else if !silent.is_empty() {
        let some = silent.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        Check::warn(NAME, found).advice(format!("went away without stopping: {some}"))
    } else {
        Check::ok(NAME, found)
    })
}

/// Attempts whose worker's lease ran out, of one tenant: nobody sees those of all.
async fn lost(client: &mut Client, tenant: Option<Uuid>) -> Result<Check, Error> {
    const NAME: &str = "lost attempts";
    let Some(tenant) = tenant else {
        return Ok(Check::skip(NAME, "no tenant named").advice("pass --tenant"));
    };
    let problem = |source| failed("lost attempts", source);
    let transaction = client.transaction().await.map_err(problem)?;
    let name = "select set_config('app.tenant_id', $1::text, true)";
    transaction.query_typed(name, &[(&tenant, Type::UUID)]).await.map_err(problem)?;
    let sql = "select count(*) from jobforge.attempts a
               where a.status = 'lost' and a.finished_at > clock_timestamp() - interval '1 hour'";
    let lost: i64 = transaction.query_typed_one(sql, &[]).await.map_err(problem)?.get(0);
    Ok(if lost == 0 {
        Check::ok(NAME, "none in the last hour")
    } else {
        Check::warn(NAME, format!("{lost} in the last hour"))
            .advice("workers died or were cut off: see their logs")
    })
}
