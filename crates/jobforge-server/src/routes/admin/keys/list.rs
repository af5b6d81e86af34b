//! A page of keys, in the order of their ids; never a secret.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{ApiKey, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Administer, System};
use crate::cursor;
use crate::extract::{Answer, Params};
use crate::problem::Problem;
use crate::routes::admin::page;
use crate::routes::admin::tenants::unknown;

/// Which keys.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct KeyParams {
    /// Only this tenant's; an administrator sees no others anyway.
    tenant_id: Option<Uuid>,
    /// The most keys, 1 to 10000.
    #[serde(default = "page::usual_limit")]
    #[param(minimum = 1, maximum = 10000, default = 100)]
    limit: i32,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyPage {
    /// The keys, revoked and expired ones too.
    keys: Vec<ApiKey>,
    /// How to get the next page, if there may be one.
    next_cursor: Option<String>,
}

/// List API keys.
#[utoipa::path(get, path = "/admin/keys", operation_id = "list_keys", tag = "keys", params(KeyParams), responses((status = 200, body = KeyPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: System<Administer>,
    Params(params): Params<KeyParams>,
) -> Result<Answer<KeyPage>, Problem> {
    let tenant = match (caller.identity.tenant(), params.tenant_id) {
        (Some(own), Some(named)) if own != named => return Err(unknown(named)),
        (own, named) => own.or(named),
    };
    let after: Option<String> = params.cursor.as_deref().map(cursor::read).transpose()?;
    let client = app.db.operator().await?;
    let keys =
        client.call(async |c| rpc::list_api_keys(c, tenant, params.limit, after.as_deref()).await).await?;
    let next_cursor = page::next(params.limit, &keys, |last| last.id.clone());
    Ok(Answer(KeyPage { keys, next_cursor }))
}
