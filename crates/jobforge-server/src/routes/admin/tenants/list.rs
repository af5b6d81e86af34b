//! A page of tenants, in the order of their ids.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{ListedTenant, rpc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Answer, Params};
use crate::problem::Problem;
use crate::routes::admin::page::{self, PageParams};

/// A page of tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TenantPage {
    /// The tenants.
    tenants: Vec<ListedTenant>,
    /// How to get the next page, if there may be one.
    next_cursor: Option<String>,
}

/// List tenants.
#[utoipa::path(get, path = "/admin/tenants", operation_id = "list_tenants", tag = "tenants", params(PageParams), responses((status = 200, body = TenantPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Params(params): Params<PageParams>,
) -> Result<Answer<TenantPage>, Problem> {
    let after: Option<Uuid> = params.after()?;
    let client = app.db.operator().await?;
    let tenants = client.call(async |c| rpc::list_tenants(c, params.limit, after).await).await?;
    let next_cursor = page::next(params.limit, &tenants, |last| last.id);
    Ok(Answer(TenantPage { tenants, next_cursor }))
}
