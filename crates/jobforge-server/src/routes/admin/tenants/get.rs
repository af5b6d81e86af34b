//! One tenant.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::ListedTenant;
use uuid::Uuid;

use super::look;
use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// Look at a tenant.
#[utoipa::path(get, path = "/admin/tenants/{id}", operation_id = "get_tenant", tag = "tenants", params(("id" = Uuid, Path)), responses((status = 200, body = ListedTenant)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Place(id): Place<Uuid>,
) -> Result<Answer<ListedTenant>, Problem> {
    look(&app, id).await.map(Answer)
}
