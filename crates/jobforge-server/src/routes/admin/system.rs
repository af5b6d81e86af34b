//! How the whole does: who leads, what is alive, and what waits for somebody.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use futures_util::future::try_join4;
use jobforge_core::SystemState;
use jobforge_core::rpc::{self, ForgottenPause, Starved, StuckLease};
use serde::Serialize;
use utoipa::ToSchema;

use super::page::LimitParams;
use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// A lease that ran out longer ago than this should have been reaped.
const OVERDUE: Duration = Duration::from_secs(30);
/// Work that waits longer than this for a limit starves.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// A pause older than this may have been forgotten.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// How the whole does.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SystemReport {
    /// The server's version.
    version: &'static str,
    /// Who leads, what is alive, how many of everything.
    state: SystemState,
    /// Leases that ran out half a minute ago or earlier and were not reaped.
    stuck_leases: Vec<StuckLease>,
    /// Pauses of more than a day that hold due work back.
    forgotten_pauses: Vec<ForgottenPause>,
    /// Limits that are full while due work has waited for a quarter of an hour.
    starved: Vec<Starved>,
}

/// Look at the system itself; `limit` bounds each list.
#[utoipa::path(get, path = "/admin/system", operation_id = "system_state", tag = "operate", params(LimitParams), responses((status = 200, body = SystemReport)))]
pub(crate) async fn look(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Params(LimitParams { limit }): Params<LimitParams>,
) -> Result<Answer<SystemReport>, Problem> {
    let client = app.db.operator().await?;
    let (state, stuck_leases, forgotten_pauses, starved) = client
        .call(async |c| {
            let looks = try_join4(
                rpc::system_state(c, limit),
                rpc::list_stuck_leases(c, OVERDUE, limit),
                rpc::list_forgotten_pauses(c, OLD, limit),
                rpc::list_starved(c, PATIENCE, limit),
            );
            rpc::at_once(c, looks).await
        })
        .await?;
    let version = env!("CARGO_PKG_VERSION");
    Ok(Answer(SystemReport { version, state, stuck_leases, forgotten_pauses, starved }))
}
