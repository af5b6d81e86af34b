//! One connector config.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{ConnectorConfig, rpc};

use crate::app::App;
use crate::auth::{Administer, Tenant};
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// Look at a connector config; of secrets only that they are there.
#[utoipa::path(get, path = "/admin/connectors/{name}", operation_id = "get_connector", tag = "connectors", params(("name" = String, Path)), responses((status = 200, body = ConnectorConfig)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    tenant: Tenant<Administer>,
    Place(name): Place<String>,
) -> Result<Answer<ConnectorConfig>, Problem> {
    let client = app.db.tenant().await?;
    client.call(async |c| rpc::get_connector_config(c, tenant.id, &name).await).await.map(Answer)
}
