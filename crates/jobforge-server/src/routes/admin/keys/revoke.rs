//! End a key for good.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::rpc;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Administer, System};
use crate::change::operate;
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// A key that is over.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevokedKey {
    /// Its id.
    id: String,
    /// Whether it was in force before.
    revoked: bool,
}

/// Revoke an API key and end its sessions: this server refuses it at once, others within seconds.
#[utoipa::path(delete, path = "/admin/keys/{id}", operation_id = "revoke_key", tag = "keys",
    params(("id" = String, Path, description = "The 12 characters after jf_")), responses((status = 200, body = RevokedKey)))]
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    caller: System<Administer>,
    Place(id): Place<String>,
) -> Result<Answer<RevokedKey>, Problem> {
    let revoked = operate(&app, &caller.actor, async |c| {
        rpc::revoke_api_key(c, &id, Some(&caller.actor.credential), caller.identity.tenant()).await
    })
    .await?;
    app.keys.forget(&id);
    app.sessions.forget(&id);
    Ok(Answer(RevokedKey { id, revoked }))
}
