//! Who calls, what that role may do, and for which tenant.
//!
//! - `role.rs`: what each of the five roles may
//! - `key.rs`: API keys: their form, and the cache that knows of a revocation within seconds
//! - `scope.rs`: what a route asks for: a right, and a tenant where there is one

pub mod key;
mod role;
mod scope;

pub use role::{Right, may};
pub(crate) use scope::{Administer, Enqueue, Look, Operate, Read, Super, System, Tenant, Work};

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use jobforge_core::{Actor, KeyScope, Role};
use uuid::Uuid;

use crate::app::App;
use crate::problem::Problem;

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

/// Who makes this request. Kept with the request, so that it is found out once.
pub(crate) async fn identify(parts: &mut Parts, app: &App) -> Result<Identity, Problem> {
    if let Some(known) = parts.extensions.get::<Identity>() {
        return Ok(known.clone());
    }
    let identity = match bearer(&parts.headers)? {
        Some(token) if token.starts_with(key::PREFIX) => app.keys.identify(app, token).await?,
        Some(_) | None => return Err(Problem::unauthenticated()),
    };
    parts.extensions.insert(identity.clone());
    Ok(identity)
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
