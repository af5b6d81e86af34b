//! Make a key. Its text is told once, here, and kept nowhere.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jobforge_core::{ApiKey, Code, KeyScope, NewKey, Role, rpc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::key::KeyText;
use crate::auth::{Administer, Identity, System};
use crate::change::operate;
use crate::extract::{Answer, Body};
use crate::problem::{ErrorCode, Problem};
use crate::routes::admin::tenants::unknown;

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyInput {
    /// What it may do.
    role: Role,
    /// Whose it is. An administrator's keys are its tenant's; a super-admin's have none, a worker's may have none.
    tenant_id: Option<Uuid>,
    /// What people call it.
    #[serde(default)]
    #[schema(max_length = 200)]
    name: String,
    /// When it ends by itself.
    expires_at: Option<Timestamp>,
}

/// A key that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// The whole key: shown here and never again.
    #[schema(example = "jf_4x7kq2m9c3ab_…")]
    key: String,
    #[serde(flatten)]
    known: ApiKey,
}

/// Make an API key.
#[utoipa::path(post, path = "/admin/keys", operation_id = "create_key", tag = "keys", request_body = KeyInput, responses((status = 201, body = MadeKey)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: System<Administer>,
    Body(input): Body<KeyInput>,
) -> Result<Response, Problem> {
    let scope = scope(&caller.identity, input.role, input.tenant_id)?;
    let text = KeyText::generate();
    let new = NewKey {
        id: text.id.clone(),
        secret_sha256: text.secret_sha256,
        scope,
        name: input.name,
        expires_at: input.expires_at,
        author: Some(caller.actor.credential.clone()),
        only_first: false,
    };
    let known = operate(&app, &caller.actor, async |c| rpc::create_api_key(c, &new).await).await?;
    let made = MadeKey { key: text.expose().to_owned(), known };
    let mut response = (StatusCode::CREATED, Answer(made)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What the key may do and for whom: within what its maker may. Another tenant is one that is not known.
fn scope(maker: &Identity, role: Role, tenant: Option<Uuid>) -> Result<KeyScope, Problem> {
    let tenant = match maker.tenant() {
        Some(_) if role == Role::SuperAdmin => {
            let detail = format!("the role {} may not make a key of {role}", maker.role());
            return Err(Problem::forbidden("role_insufficient", detail));
        }
        Some(own) if tenant.is_some_and(|tenant| tenant != own) => {
            return Err(unknown(tenant.unwrap_or(own)));
        }
        Some(own) => Some(own),
        None => tenant,
    };
    KeyScope::of(role, tenant).ok_or_else(|| {
        let (reason, detail) = match tenant {
            Some(_) => ("key_tenant_given", "has no tenant"),
            None => ("key_tenant_missing", "needs a tenant"),
        };
        Problem::new(ErrorCode::Refused(Code::InvalidArgument), reason, format!("a key of {role} {detail}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_more_than_its_maker() {
        let (own, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let maker = |scope| Identity { scope, credential: "key".to_owned() };
        let admin = maker(KeyScope::TenantAdmin(own));
        let made = |role, tenant| scope(&admin, role, tenant).ok();
        assert_eq!(made(Role::SuperAdmin, None), None);
        assert_eq!(made(Role::Worker, None), Some(KeyScope::Worker(Some(own))), "never a worker of all");
        for role in [Role::TenantAdmin, Role::TenantViewer, Role::Producer, Role::Worker] {
            assert_eq!(made(role, Some(other)), None);
            assert_eq!(made(role, None), KeyScope::of(role, Some(own)));
            assert_eq!(made(role, Some(own)), KeyScope::of(role, Some(own)));
        }
        let all = maker(KeyScope::SuperAdmin);
        assert_eq!(scope(&all, Role::Worker, None).ok(), Some(KeyScope::Worker(None)));
        assert!(
            scope(&all, Role::SuperAdmin, Some(own)).is_err() && scope(&all, Role::Producer, None).is_err()
        );
    }
}
