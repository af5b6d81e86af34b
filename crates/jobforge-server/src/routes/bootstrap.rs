//! Make the first key.

use std::sync::Arc;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jobforge_core::{Actor, Code, KeyScope, NewKey, Role, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::bootstrap::Verdict;
use crate::auth::key::KeyText;
use crate::auth::origin;
use crate::auth::rate::Peer;
use crate::change::operate;
use crate::extract::{Answer, Body};
use crate::guard::RequestId;
use crate::problem::{ErrorCode, Problem};
use crate::routes::no_route;

/// Who makes the first key, in the audit log.
const ACTOR: &str = "bootstrap token";

/// What the first key is made with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BootstrapInput)]
pub(crate) struct Input {
    /// The token that the server wrote to its console.
    token: String,
}

/// The first key.
#[derive(Serialize, ToSchema)]
pub(crate) struct FirstKey {
    /// Its public id.
    id: String,
    /// The whole key: shown here and never again.
    key: String,
    /// What it may do.
    role: Role,
}

/// Make the first key, a super-admin's, with the token that the server wrote to its console. From this machine only,
/// and only while there is no key: otherwise there is no such route.
#[utoipa::path(post, path = "/bootstrap", tag = "keys", security(()), request_body = Input, responses(
    (status = 201, body = FirstKey, description = "The key, once"),
))]
pub(crate) async fn bootstrap(
    State(app): State<Arc<App>>,
    parts: Parts,
    Body(input): Body<Input>,
) -> Result<Response, Problem> {
    if !app.bootstrap.stands() {
        return Err(no_route().await);
    }
    let peer = Peer::of(&parts);
    if !peer.is_loopback() {
        let detail = "the first key is made on the server's own machine";
        return Err(Problem::forbidden("bootstrap_remote", detail));
    }
    origin::refuse_foreign_page(&parts)?;
    app.rates.admit(peer)?;
    match app.bootstrap.judge(&input.token) {
        Verdict::Gone => return Err(no_route().await),
        Verdict::Wrong => {
            app.rates.note_refused(peer);
            return Err(Problem::unauthenticated());
        }
        Verdict::Right => {}
    }
    let made = KeyText::generate();
    let answer = make_first(&app, &made, RequestId::of(&parts)).await;
    // Somebody was first, here or on another server: the offer is over either way.
    if answer
        .as_ref()
        .map_or_else(|problem| problem.code() == ErrorCode::Refused(Code::WrongState), |()| true)
    {
        app.bootstrap.end();
    }
    answer?;
    let first = FirstKey { key: made.expose().to_owned(), id: made.id, role: Role::SuperAdmin };
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Answer(first)).into_response())
}

async fn make_first(app: &App, made: &KeyText, request_id: &str) -> Result<(), Problem> {
    let key = NewKey {
        id: made.id.clone(),
        secret_sha256: made.secret_sha256,
        scope: KeyScope::SuperAdmin,
        name: "first".to_owned(),
        expires_at: None,
        author: Some(ACTOR.to_owned()),
        only_first: true,
    };
    let actor = Actor { credential: ACTOR.to_owned(), request_id: Some(request_id.to_owned()) };
    operate(app, &actor, async |c| rpc::create_api_key(c, &key).await).await.map(drop)
}
