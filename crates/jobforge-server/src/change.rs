//! A change that a request makes, on behalf of its credential.
//!
//! It may wait for whoever holds what it changes: on a connection that keeps nobody else waiting, and not for ever.

use jobforge_core::{Actor, Error, rpc};
use tokio_postgres::Client;

use crate::app::App;
use crate::auth::Tenant;
use crate::problem::Problem;

/// Makes one call that changes something of a tenant, so that the audit log names the caller.
pub(crate) async fn change<R, T>(
    app: &App,
    tenant: &Tenant<R>,
    call: impl AsyncFnOnce(&Client) -> Result<T, Error>,
) -> Result<T, Problem> {
    let client = app.db.patient(tenant.id).await?;
    client.call(async |c| rpc::as_actor(c, &tenant.actor, call(c)).await).await
}

/// The same for what belongs to no tenant, as the login that operates.
pub(crate) async fn operate<T>(
    app: &App,
    actor: &Actor,
    call: impl AsyncFnOnce(&Client) -> Result<T, Error>,
) -> Result<T, Problem> {
    let client = app.db.patient_operator().await?;
    client.call(async |c| rpc::as_actor(c, actor, call(c)).await).await
}
