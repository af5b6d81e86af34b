//! Let something go on.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{PauseKind, rpc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Super, System};
use crate::change::operate;
use crate::extract::{Answer, Place};
use crate::problem::Problem;

/// What goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Resumed {
    /// Of what kind.
    kind: PauseKind,
    /// Which one.
    name: String,
    /// Whether it was paused before.
    resumed: bool,
}

/// End a pause.
#[utoipa::path(delete, path = "/admin/pauses/{kind}/{name}", operation_id = "resume", tag = "operate",
    params(("kind" = PauseKind, Path), ("name" = String, Path)), responses((status = 200, body = Resumed)))]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: System<Super>,
    Place((kind, name)): Place<(PauseKind, String)>,
) -> Result<Answer<Resumed>, Problem> {
    let resumed = operate(&app, &caller.actor, async |c| {
        rpc::resume(c, kind, &name, Some(&caller.actor.credential)).await
    })
    .await?;
    Ok(Answer(Resumed { kind, name, resumed }))
}
