//! What a route asks for: a right, and a tenant where there is one.
//!
//! The tenant is the credential's own. A super-admin has none and names one with the header `JobForge-Tenant`,
//! which the audit log remembers; from anybody else that header is refused unless it says what is so anyway.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use jobforge_core::Actor;
use uuid::Uuid;

use super::{Identity, Right, identify, may};
use crate::app::App;
use crate::guard::RequestId;
use crate::problem::Problem;

/// The header by which a super-admin says for whom it acts.
pub(crate) const TENANT_HEADER: &str = "jobforge-tenant";

/// Names a right in a handler's arguments.
pub(crate) trait Needs {
    const RIGHT: Right;
}

macro_rules! needs {
    ($($name:ident),*) => {$(
        /// Asks for the right of this name.
        pub(crate) struct $name;
        impl Needs for $name {
            const RIGHT: Right = Right::$name;
        }
    )*};
}
needs!(Look, Read, Enqueue, Operate, Administer, Work, Super);

/// A caller that has the right, and the tenant it acts for.
pub(crate) struct Tenant<R> {
    pub(crate) id: Uuid,
    pub(crate) actor: Actor,
    right: PhantomData<fn() -> R>,
}

/// A caller that has the right; its tenant, if it has one, narrows what it may touch.
pub(crate) struct System<R> {
    pub(crate) identity: Identity,
    pub(crate) actor: Actor,
    right: PhantomData<fn() -> R>,
}

/// A caller with whatever rights it has.
pub(crate) struct Anybody {
    pub(crate) identity: Identity,
    pub(crate) actor: Actor,
}

impl<R: Needs> FromRequestParts<Arc<App>> for Tenant<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Tenant<R>, Problem> {
        let System { identity, actor, right } = System::<R>::from_request_parts(parts, app).await?;
        let named = named_tenant(&parts.headers)?;
        let id = match (identity.tenant(), named) {
            (Some(own), None) => own,
            (Some(own), Some(named)) if own == named => own,
            (Some(_), Some(_)) => {
                return Err(Problem::forbidden("tenant_foreign", "the credential is of another tenant"));
            }
            (None, Some(named)) => {
                Box::pin(app.note_named_tenant(&actor, named, parts)).await?;
                named
            }
            (None, None) => {
                let detail = "a super-admin says for which tenant it acts: header JobForge-Tenant";
                return Err(Problem::malformed("tenant_missing", detail));
            }
        };
        Ok(Tenant { id, actor, right })
    }
}

impl<R: Needs> FromRequestParts<Arc<App>> for System<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<System<R>, Problem> {
        let Anybody { identity, actor } = Anybody::from_request_parts(parts, app).await?;
        if !may(identity.role(), R::RIGHT) {
            let detail = format!("the role {} may not do this", identity.role());
            return Err(Problem::forbidden("role_insufficient", detail));
        }
        Ok(System { identity, actor, right: PhantomData })
    }
}

impl FromRequestParts<Arc<App>> for Anybody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Anybody, Problem> {
        let identity = identify(parts, app).await?;
        let actor = identity.actor(RequestId::of(parts));
        Ok(Anybody { identity, actor })
    }
}

fn named_tenant(headers: &HeaderMap) -> Result<Option<Uuid>, Problem> {
    let Some(value) = headers.get(TENANT_HEADER) else { return Ok(None) };
    let tenant = value.to_str().ok().and_then(|text| Uuid::parse_str(text).ok());
    tenant
        .map(Some)
        .ok_or_else(|| Problem::malformed("tenant_malformed", "the header JobForge-Tenant is no UUID"))
}
