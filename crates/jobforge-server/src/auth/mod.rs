//! Who calls, what that role may do, and for which tenant.
//!
//! - `role.rs`: what each of the five roles may
//! - `key.rs`: API keys: their form, and who bears one
//! - `token.rs`, `jwks.rs`: tokens of an identity provider, and its keys
//! - `session.rs`, `origin.rs`: the web page's cookie, and what a foreign page cannot do with it
//! - `bootstrap.rs`: the first key
//! - `memory.rs`: what was looked up, believed for seconds, so that a revocation is felt
//! - `rate.rs`: how many requests of a credential, how many refused ones of an address
//! - `scope.rs`: what a route asks for: a right, and a tenant where there is one

pub(crate) mod bootstrap;
mod jwks;
pub mod key;
mod memory;
pub(crate) mod origin;
pub(crate) mod rate;
mod role;
mod scope;
pub(crate) mod session;
pub(crate) mod token;

pub use jwks::{FetchJwks, Fetching, JWKS_LARGEST, JWKS_PATIENCE, PublishedKeys};
pub use role::{Right, may};
pub(crate) use scope::{Administer, Anybody, Enqueue, Look, Operate, Read, Super, System, Tenant, Work};
pub use token::{TokenAlgorithm, TokenClaims, TokenConfig, TokenKeys};

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use jobforge_core::{Actor, KeyScope, Role};
use uuid::Uuid;

use crate::app::App;
use crate::problem::{ErrorCode, Problem};
use rate::Peer;
use session::SessionId;

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What it may do, and for whom.
    pub scope: KeyScope,
    /// Its name in the audit log.
    pub credential: String,
}

impl Identity {
    /// What it may do.
    pub fn role(&self) -> Role {
        self.scope.role()
    }

    /// The only tenant it acts for; none for those who act for many.
    pub fn tenant(&self) -> Option<Uuid> {
        self.scope.tenant()
    }

    /// Its name and the request's, for the audit log.
    pub(crate) fn actor(&self, request_id: &str) -> Actor {
        let credential = format!("{} ({})", self.credential, self.role());
        Actor { credential, request_id: Some(request_id.to_owned()) }
    }
}

/// Who makes this request. Kept with the request, so that it is found out, and counted, once.
pub(crate) async fn identify(parts: &mut Parts, app: &App) -> Result<Identity, Problem> {
    if let Some(known) = parts.extensions.get::<Identity>() {
        return Ok(known.clone());
    }
    // Who shows nothing guesses nothing, and is not counted.
    if !parts.headers.contains_key(header::AUTHORIZATION) && !session::has_cookie(parts) {
        return Err(Problem::unauthenticated());
    }
    let identity = admitted(app, Peer::of(parts), find_out(parts, app).await)?;
    parts.extensions.insert(identity.clone());
    Ok(identity)
}

/// Who bears this key, where it is not the request's header that shows it.
pub(crate) async fn identify_key(parts: &Parts, app: &App, key: &str) -> Result<Identity, Problem> {
    let peer = Peer::of(parts);
    admitted(app, peer, app.keys.identify(app, peer, key).await)
}

/// Counts what was found out.
fn admitted(app: &App, peer: Peer, found: Result<Identity, Problem>) -> Result<Identity, Problem> {
    if found.as_ref().is_err_and(|problem| problem.code() == ErrorCode::Unauthenticated) {
        app.rates.note_refused(peer);
    }
    let identity = found?;
    app.rates.take(&identity.credential)?;
    Ok(identity)
}

/// A header before a cookie: a header that is wrong is not made good by a cookie.
async fn find_out(parts: &Parts, app: &App) -> Result<Identity, Problem> {
    let peer = Peer::of(parts);
    match (bearer(&parts.headers)?, &app.tokens) {
        (Some(text), _) if text.starts_with(key::PREFIX) => app.keys.identify(app, peer, text).await,
        (Some(text), Some(tokens)) => {
            app.rates.admit(peer)?;
            Box::pin(tokens.identify(text)).await
        }
        (Some(_), None) => Err(Problem::unauthenticated()),
        (None, _) => {
            let id = SessionId::of(parts).ok_or_else(Problem::unauthenticated)?;
            origin::require_own_page(parts)?;
            Box::pin(app.sessions.identify(app, peer, &id)).await
        }
    }
}

/// The token of an `Authorization: Bearer` header, if there is such a header.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::unauthenticated());
    }
    let text = value.to_str().map_err(|_| Problem::unauthenticated())?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(Problem::unauthenticated()),
    }
}
