//! Whether the server lives, and whether it can do its work.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::connect;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::extract::Answer;
use crate::problem::Problem;

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    /// The server's version.
    version: &'static str,
}

const WELL: Health = Health { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// The process answers. Says nothing of the database: a restart would not mend that.
#[utoipa::path(get, path = "/health/live", tag = "health", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn live() -> Answer<Health> {
    Answer(WELL)
}

/// The database answers and takes writes, and the broker answers where the server's settings require it.
#[utoipa::path(get, path = "/health/ready", tag = "health", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Answer<Health>, Problem> {
    let client = app.db.tenant().await?;
    client.call(async |c| connect::check_writable(c).await).await?;
    if let Some(broker) = &app.config.broker
        && !broker.answers().await
    {
        return Err(Problem::broker_unavailable());
    }
    Ok(Answer(WELL))
}
