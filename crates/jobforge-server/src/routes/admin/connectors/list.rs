//! A page of connector configs, in the order of their names.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{ConnectorConfig, rpc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Administer, Tenant};
use crate::extract::{Answer, Params};
use crate::problem::Problem;
use crate::routes::admin::page::{self, PageParams};

/// A page of connector configs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConnectorPage {
    /// The configs; of secrets only that they are there.
    connectors: Vec<ConnectorConfig>,
    /// How to get the next page, if there may be one.
    next_cursor: Option<String>,
}

/// List connector configs.
#[utoipa::path(get, path = "/admin/connectors", operation_id = "list_connectors", tag = "connectors", params(PageParams), responses((status = 200, body = ConnectorPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    tenant: Tenant<Administer>,
    Params(params): Params<PageParams>,
) -> Result<Answer<ConnectorPage>, Problem> {
    let after: Option<String> = params.after()?;
    let client = app.db.tenant().await?;
    let connectors = client
        .call(async |c| rpc::list_connector_configs(c, tenant.id, params.limit, after.as_deref()).await)
        .await?;
    let next_cursor = page::next(params.limit, &connectors, |last| last.name.clone());
    Ok(Answer(ConnectorPage { connectors, next_cursor }))
}
