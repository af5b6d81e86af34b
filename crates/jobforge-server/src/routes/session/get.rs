//! Who am I?

use jobforge_core::Role;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::{Anybody, Identity};
use crate::extract::Answer;

/// Who a caller is to this server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Who {
    /// What it may do.
    role: Role,
    /// The only tenant it acts for; null for those who act for many.
    tenant_id: Option<Uuid>,
    /// Its name in the audit log.
    #[schema(example = "key jf_4x7kq2m9c3ab")]
    credential: String,
}

impl Who {
    pub(crate) fn of(identity: &Identity) -> Who {
        Who { role: identity.role(), tenant_id: identity.tenant(), credential: identity.credential.clone() }
    }
}

/// Who the caller is, by whatever credential it shows.
#[utoipa::path(get, path = "/session", tag = "session", responses((status = 200, body = Who)))]
pub(crate) async fn get(caller: Anybody) -> Answer<Who> {
    Answer(Who::of(&caller.identity))
}
