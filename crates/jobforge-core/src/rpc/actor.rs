//! For whom a call is made: the credential and the request that the audit log tells beside the login.

use futures_util::future::join3;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient};

use super::at_once::begin;
use super::wire::clean;
use crate::error::Error;

/// Whom a login acts for, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The credential, e.g. `key jf_4x7kq2m9c3ab (super_admin)`; at most 255 characters are kept.
    pub credential: String,
    /// The request; at most 128 characters are kept.
    pub request_id: Option<String>,
}

/// Makes one call of this module on behalf of an actor, in a transaction of its own.
///
/// ```ignore
/// let canceled = as_actor(&client, &actor, cancel_job(&client, tenant, id, None)).await?;
/// ```
///
/// When it has begun, actor, call and commit are sent at once, and answered in one round trip; a transaction pooler keeps them
/// on one session. So `call` must be one call, or several joined, made on this same client and not polled before; and
/// nothing is left open where this is dropped. Of joined calls all are done or none.
pub async fn as_actor<T>(
    client: &Client,
    actor: &Actor,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    const OPERATION: &str = "as_actor";
    begin(client, OPERATION).await?;
    // In this order: the first poll of each sends it.
    let (named, answer, committed) =
        join3(set_actor(client, actor), call, client.batch_execute("commit")).await;
    named?;
    let answer = answer?;
    committed.map_err(|error| Error::call(OPERATION, error))?;
    Ok(answer)
}

/// Says for whom the rest of this transaction is; outside of one it says nothing.
pub async fn set_actor<C: GenericClient>(c: &C, actor: &Actor) -> Result<(), Error> {
    let sql =
        "select set_config('app.actor', $1, true), set_config('app.request_id', coalesce($2, ''), true)";
    let request_id = actor.request_id.as_deref().map(clean);
    c.query_typed(sql, &[(&clean(&actor.credential), Type::TEXT), (&request_id, Type::TEXT)])
        .await
        .map_err(|error| Error::call("set_actor", error))?;
    Ok(())
}
