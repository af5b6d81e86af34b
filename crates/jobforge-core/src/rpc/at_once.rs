//! Calls sent at once and answered in one round trip.

use futures_util::FutureExt;
use futures_util::future::join3;
use tokio_postgres::Client;

use crate::error::Error;

const OPERATION: &str = "at_once";

/// Makes one call of this crate's, or several joined, in a transaction of their own.
///
/// ```ignore
/// let (job, attempts) =
///     at_once(&client, try_join(get_job(&client, tenant, id), list_attempts(&client, tenant, id))).await?;
/// ```
///
/// Begin, calls and commit are sent when this is first polled; a transaction pooler keeps them on one session, and lets
/// statements follow each other only so. So `calls` are made on this same client and were not polled before; and nothing
/// is left open where this is dropped: what was sent ends with its commit. All of them are done or none.
pub async fn at_once<T>(client: &Client, calls: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    // In this order: the first poll of each sends it.
    let (begun, answer, committed) =
        join3(client.batch_execute("begin"), calls, client.batch_execute("commit")).await;
    begun.map_err(|error| Error::call(OPERATION, error))?;
    let answer = answer?;
    committed.map_err(|error| Error::call(OPERATION, error))?;
    Ok(answer)
}

/// Begins a transaction and waits until it has begun, for calls that say first for whom they are: where it did not
/// begin, that would be forgotten at once, and the call would be made for nobody. What follows is sent at once.
pub(super) async fn begin(client: &Client, operation: &'static str) -> Result<(), Error> {
    let begun = Begun(Some(client));
    client.batch_execute("begin").await.map_err(|error| Error::call(operation, error))?;
    begun.keep();
    Ok(())
}

/// A transaction that may have begun; whoever is dropped here leaves none.
struct Begun<'a>(Option<&'a Client>);

impl Begun<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // Its first poll sends it; nobody waits for the answer.
        self.0.map(|client| client.batch_execute("rollback").now_or_never());
    }
}
