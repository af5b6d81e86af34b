//! Begin a session.

use std::sync::Arc;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jobforge_core::rpc;
use serde::Deserialize;
use utoipa::ToSchema;

use super::get::Who;
use crate::app::App;
use crate::auth::key::KeyText;
use crate::auth::session::{LIFETIME, SessionId};
use crate::auth::{identify_key, origin};
use crate::change::operate;
use crate::extract::{Answer, Body};
use crate::guard::RequestId;
use crate::problem::Problem;

/// What a session is begun with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SessionInput)]
pub(crate) struct Input {
    /// An API key.
    #[schema(example = "jf_<id>_<secret>")]
    key: String,
}

/// Begin a session of twelve hours with an API key. The answer sets a cookie that no script can read; the session ends
/// with its key.
#[utoipa::path(post, path = "/session", tag = "session", security(()), request_body = Input, responses(
    (status = 201, body = Who, headers(("Set-Cookie" = String, description = "The session"))),
))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    parts: Parts,
    Body(input): Body<Input>,
) -> Result<Response, Problem> {
    origin::refuse_foreign_page(&parts)?;
    let identity = identify_key(&parts, &app, &input.key).await?;
    let key = KeyText::parse(&input.key).ok_or_else(Problem::unauthenticated)?;
    let session = SessionId::generate();
    let cookie = session.cookie(&parts)?;
    let (hash, actor) = (session.sha256(), identity.actor(RequestId::of(&parts)));
    operate(&app, &actor, async |c| rpc::create_session(c, &hash, &key.id, LIFETIME).await).await?;
    let mut response = (StatusCode::CREATED, Answer(Who::of(&identity))).into_response();
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}
