//! Make a connector config, or change it.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{ConnectorConfig, rpc};

use super::input::ConnectorInput;
use crate::app::App;
use crate::auth::{Administer, Tenant};
use crate::change::change;
use crate::extract::{Answer, Body, Place};
use crate::problem::Problem;

/// Make a connector config or change it. What is not named stays, what is null goes.
#[utoipa::path(put, path = "/admin/connectors/{name}", operation_id = "upsert_connector", tag = "connectors", params(("name" = String, Path)),
    request_body = ConnectorInput, responses((status = 200, body = ConnectorConfig)))]
pub(crate) async fn upsert(
    State(app): State<Arc<App>>,
    tenant: Tenant<Administer>,
    Place(name): Place<String>,
    Body(input): Body<ConnectorInput>,
) -> Result<Answer<ConnectorConfig>, Problem> {
    let author = tenant.actor.credential.clone();
    let new = input.change(tenant.id, name, author, app.config.sealer.as_deref())?;
    change(&app, &tenant, async |c| rpc::upsert_connector_config(c, tenant.id, &new).await).await.map(Answer)
}
