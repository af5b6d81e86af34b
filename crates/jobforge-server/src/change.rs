//! A change that a request makes, on behalf of its credential.

use jobforge_core::{Actor, Error, rpc};
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::app::App;
use crate::problem::Problem;

/// Makes one call that changes something of a tenant, so that the audit log names the caller. It may wait for whoever
/// holds the job: on a connection that keeps nobody else waiting, and not for ever.
pub(crate) async fn change<T>(
    app: &App,
    actor: &Actor,
    call: impl AsyncFnOnce(&Client) -> Result<T, Error>,
) -> Result<T, Problem> {
    let client = app.db.patient().await?;
    let answer = timeout(app.config.call_timeout, rpc::as_actor(&client, actor, call(&client))).await;
    match answer {
        Ok(answer) => client.done(answer),
        Err(_) => Err(Problem::unavailable(
            "the database did not answer in time: the change may have been made; look before it is tried again",
        )),
    }
}
