//! End a session.

use std::sync::Arc;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jobforge_core::rpc;

use crate::app::App;
use crate::auth::Anybody;
use crate::auth::session::{SessionId, no_cookie};
use crate::change::operate;
use crate::problem::Problem;

/// End the session whose cookie the request shows, on every server at once.
#[utoipa::path(delete, path = "/session", tag = "session", responses((status = 204, description = "Ended")))]
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    caller: Anybody,
    parts: Parts,
) -> Result<Response, Problem> {
    let id = SessionId::of(&parts).ok_or_else(|| {
        Problem::malformed("session_missing", "the request shows no session that could end")
    })?;
    let hash = id.sha256();
    operate(&app, &caller.actor, async |c| rpc::end_session(c, &hash).await).await?;
    app.sessions.forget_all();
    let cookie = no_cookie(&parts)?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}
