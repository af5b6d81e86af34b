//! A connection lent to one request, and the limit of what it does there.
//!
//! A call that takes longer than it may is canceled on the server: nothing goes on for a caller that is not there any
//! more. So is the call of a request that is dropped. A connection on which that happened is thrown away: the cancelling
//! may arrive late, and nobody else shall read its answers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};
use jobforge_core::{Error, connect};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client};

use crate::outage::Outage;
use crate::problem::Problem;

/// How long a cancelling may take, and how long after it the call's end is waited for.
const AFTERMATH: Duration = Duration::from_millis(500);
/// How often what goes on on a connection that is thrown away is told to stop: each time ends one statement.
const CANCELS: usize = 4;

/// A connection for one call, or for several that have one limit together.
pub(crate) struct Lent {
    object: Option<Object>,
    /// The tenant's place among those that may wait.
    place: Option<OwnedSemaphorePermit>,
    under_way: bool,
    terms: Terms,
}

/// On which terms connections are lent.
#[derive(Clone)]
pub(crate) struct Terms {
    /// How long a call may take.
    pub(crate) limit: Duration,
    /// Whether a call that takes longer can be canceled: a pooler in between may not survive it (`PgBouncer` 1.18 ends
    /// when the caller is gone before its request to cancel is passed on). What is not canceled ends by itself.
    pub(crate) cancels: bool,
    pub(crate) outage: Arc<Outage>,
    /// Counts it among those that work.
    pub(crate) _lent: Arc<()>,
}

impl Lent {
    pub(crate) fn new(object: Object, place: Option<OwnedSemaphorePermit>, terms: Terms) -> Lent {
        Lent { object: Some(object), place, under_way: false, terms }
    }

    /// Calls, within the limit, and tells the answer as a caller gets it.
    pub(crate) async fn call<T>(
        self,
        call: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Problem> {
        self.attempt(call).await.map_err(Problem::from)
    }

    /// Calls within the limit.
    pub(crate) async fn attempt<T>(
        self,
        call: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.transact(async |client| call(client).await).await
    }

    /// Calls within the limit what needs the client for a transaction.
    pub(crate) async fn transact<T>(
        mut self,
        call: impl AsyncFnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let limit = self.terms.limit;
        let Some(object) = self.object.as_mut() else { return Err(Error::Closed { operation: "lend" }) };
        let client: &mut Client = object;
        let token = client.cancel_token();
        self.under_way = true;
        let answer = {
            let mut call = pin!(call(client));
            let Ok(answer) = timeout(limit, call.as_mut()).await else {
                if self.terms.cancels {
                    cancel(&token).await;
                }
                // Whatever it ended with: done after all, canceled, or not to be known.
                let ended = timeout(AFTERMATH, call).await;
                let ended = ended.unwrap_or(Err(Error::Timeout { operation: "call", after: limit }));
                self.terms.outage.heed(&ended);
                return ended;
            };
            answer
        };
        self.under_way = false;
        self.terms.outage.heed(&answer);
        if answer.as_ref().is_err_and(Error::is_connection)
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
        answer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(object), true) = (self.object.take(), self.under_way) else { return };
        let (client, place) = (Object::take(object), self.place.take());
        if !self.terms.cancels {
            return;
        }
        // Without a runtime the process ends, and its connections with it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                end(&client).await;
                drop(place);
            });
        }
    }
}

/// Whether a call was at its limit: ended by it, or not to be heard of.
pub(crate) fn is_late(error: &Error) -> bool {
    matches!(error, Error::Timeout { .. }) || is_canceled(error)
}

/// Whether a call was told to stop and did: it changed nothing.
pub(crate) fn is_canceled(error: &Error) -> bool {
    matches!(error, Error::Database { source, .. } if source.code() == Some(&SqlState::QUERY_CANCELED))
}

/// Stops all that was sent on a connection: an answer to an empty question shows that nothing is under way any more.
async fn end(client: &ClientWrapper) {
    let token = client.cancel_token();
    for _ in 0..CANCELS {
        cancel(&token).await;
        if timeout(AFTERMATH, client.check_connection()).await.is_ok() {
            return;
        }
    }
    tracing::warn!("a statement was told to stop and did not answer; its connection is closed");
}

async fn cancel(token: &CancelToken) {
    // What cannot be canceled ends with its connection, or when the server notices.
    let _ = timeout(AFTERMATH, connect::cancel(token)).await;
}
