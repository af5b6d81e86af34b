//! Hold something back.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{NewPause, PauseKind, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Super, System};
use crate::change::operate;
use crate::extract::{Answer, Body};
use crate::problem::Problem;

/// A pause to be made, or to be changed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseInput {
    /// Of what kind.
    kind: PauseKind,
    /// Of which one: a queue's name, a tenant's id, a definition's key.
    name: String,
    /// Why.
    #[serde(default)]
    reason: String,
    /// When it ends by itself; without, it lasts until somebody resumes.
    until: Option<Timestamp>,
}

/// What is held back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Paused {
    /// Of what kind.
    kind: PauseKind,
    /// Which one.
    name: String,
    /// Why.
    reason: String,
    /// By whose hand.
    author: String,
    /// When it ends by itself.
    until: Option<Timestamp>,
    /// When this was said; a pause that held before began earlier.
    at: Timestamp,
}

/// Hold a queue, a tenant or a definition back: nothing of it starts, what runs goes on.
#[utoipa::path(post, path = "/admin/pauses", operation_id = "pause", tag = "operate", request_body = PauseInput, responses((status = 200, body = Paused)))]
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: System<Super>,
    Body(input): Body<PauseInput>,
) -> Result<Answer<Paused>, Problem> {
    let PauseInput { kind, name, reason, until } = input;
    let author = caller.actor.credential.clone();
    let new = NewPause { kind, name, reason, until, author: Some(author.clone()) };
    let at = operate(&app, &caller.actor, async |c| rpc::pause(c, &new).await).await?;
    Ok(Answer(Paused { kind, name: new.name, reason: new.reason, author, until, at }))
}
