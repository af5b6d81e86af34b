//! Delete a connector config with its secrets.

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

/// A connector config that is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeletedConnector {
    /// Its name.
    name: String,
    /// Whether it was there before.
    deleted: bool,
}

/// Delete a connector config with its secrets.
#[utoipa::path(delete, path = "/admin/connectors/{name}", operation_id = "delete_connector", tag = "connectors", params(("name" = String, Path)), responses((status = 200, body = DeletedConnector)))]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    tenant: Tenant<Administer>,
    Place(name): Place<String>,
) -> Result<Answer<DeletedConnector>, Problem> {
    let deleted =
        change(&app, &tenant, async |c| rpc::delete_connector_config(c, tenant.id, &name).await).await?;
    Ok(Answer(DeletedConnector { name, deleted }))
}
