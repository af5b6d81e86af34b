//! For one tenant alone: a worker's login that is trusted for all narrows itself while it calls for somebody bound to one.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::at_once::begin;
use super::lock_limit::limit_locks;
use crate::error::Error;

const OPERATION: &str = "bound_to";

/// A call that was not polled yet.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Makes one call for a tenant's worker alone, or, without a tenant, for all.
///
/// The database sees to it that such a call reaches no other tenant's jobs and leases. As with
/// [`as_actor`](super::as_actor), `call` is made on this same client and was not polled before.
pub async fn bound_to<T: Send>(
    client: &Client,
    tenant: Option<Uuid>,
    call: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, Error> {
    if tenant.is_none() {
        return call.await;
    }
    let mut answers = together(client, None, vec![(tenant, Box::pin(call))]).await?;
    answers.pop().ok_or_else(|| Error::shape(OPERATION, "no answer"))
}

/// Makes many calls in one transaction and one round trip, or two where some are bound to a tenant; they are committed together or not
/// at all. All of them are made on this same client and were not polled before; dropping this leaves nothing open. With a
/// limit, each wait for somebody else's lock is an error when it lasts longer.
pub async fn together<T: Send>(
    client: &Client,
    lock_limit: Option<Duration>,
    calls: Vec<(Option<Uuid>, Call<'_, T>)>,
) -> Result<Vec<T>, Error> {
    let mut steps = Vec::with_capacity(calls.len() + 3);
    if calls.iter().any(|(tenant, _)| tenant.is_some()) {
        begin(client, OPERATION).await?;
    } else {
        steps.push(step(client, Step::Begin));
    }
    steps.extend(lock_limit.map(|limit| step(client, Step::LimitLocks(limit))));
    // What an earlier transaction of the session left is empty; what this one leaves ends with it.
    let mut bound = None;
    for (tenant, call) in calls {
        if tenant != bound {
            steps.push(step(client, Step::Bind(tenant)));
            bound = tenant;
        }
        steps.push(Box::pin(async { call.await.map(Some) }));
    }
    steps.push(step(client, Step::Commit));
    let answers: Result<Vec<Option<T>>, Error> = in_turn(steps).await.into_iter().collect();
    Ok(answers?.into_iter().flatten().collect())
}

enum Step {
    Begin,
    LimitLocks(Duration),
    Bind(Option<Uuid>),
    Commit,
}

fn step<T: Send>(client: &Client, step: Step) -> Call<'_, Option<T>> {
    Box::pin(async move {
        let done = match step {
            Step::Begin => client.batch_execute("begin").await,
            Step::LimitLocks(limit) => return limit_locks(client, OPERATION, limit).await.map(|()| None),
            Step::Commit => client.batch_execute("commit").await,
            Step::Bind(tenant) => {
                let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
                let sql = "select set_config('app.bound_tenant', $1, true)";
                client.query_typed(sql, &[(&tenant, Type::TEXT)]).await.map(drop)
            }
        };
        done.map(|()| None).map_err(|error| Error::call(OPERATION, error))
    })
}

/// Polls all, always in their order: a call is sent when it is polled first, and whom it is bound to is said before it.
async fn in_turn<T>(mut calls: Vec<Call<'_, T>>) -> Vec<Result<T, Error>> {
    let mut answers: Vec<Option<Result<T, Error>>> = calls.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (call, answer) in calls.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = call.as_mut().poll(cx)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}
