//! Let jobs use a connector config again that a failing credential took out of use.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::rpc;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Administer, Tenant};
use crate::change::change;
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// A connector config that is in use.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnabledConnector {
    /// Its name.
    name: String,
    /// Whether it was out of use before.
    enabled: bool,
}

/// Let jobs use a connector config again.
#[utoipa::path(post, path = "/admin/connectors/{name}/enable", operation_id = "enable_connector", tag = "connectors", params(("name" = String, Path)), responses((status = 200, body = EnabledConnector)))]
pub(crate) async fn enable(
    State(app): State<Arc<App>>,
    tenant: Tenant<Administer>,
    Place(name): Place<String>,
) -> Result<Answer<EnabledConnector>, Problem> {
    let enabled =
        change(&app, &tenant, async |c| rpc::enable_connector_config(c, tenant.id, &name).await).await?;
    Ok(Answer(EnabledConnector { name, enabled }))
}
