//! Tenants: their names, weights, limits and time zones.

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod upsert;

use jobforge_core::{Code, ListedTenant, rpc};
use uuid::Uuid;

use crate::app::App;
use crate::problem::{ErrorCode, Problem};

/// The tenant of this id.
async fn look(app: &App, id: Uuid) -> Result<ListedTenant, Problem> {
    let client = app.db.operator().await?;
    client.call(async |c| rpc::get_tenant(c, id).await).await?.ok_or_else(|| unknown(id))
}

/// The same words for a tenant that is not there and for one that is not the caller's.
pub(super) fn unknown(id: Uuid) -> Problem {
    Problem::new(ErrorCode::Refused(Code::NotFound), "tenant_unknown", format!("tenant {id} is not known"))
}
