//! A connection that is made again for ever.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::connect::{Backoff, connect};
use jobforge_core::preflight;
use jobforge_core::rpc::system_state;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::config::SchedulerConfig;

/// Connects and checks that the login is fit, once.
pub(crate) async fn open(config: &SchedulerConfig) -> Result<Client, Error> {
    let (client, connection) = connect(&config.database_url).await?;
    // Its error reaches whoever uses the client.
    tokio::spawn(connection);
    within(config.call_timeout, "preflight", preflight::check(&client)).await?;
    Ok(client)
}

/// Looks whether there is what a scheduler asks, and whether its login may ask, once. It takes no leadership: whoever is told
/// to stop meanwhile has none to give up.
pub(crate) async fn look(config: &SchedulerConfig) -> Result<(), Error> {
    let client = open(config).await?;
    within(config.call_timeout, "system_state", system_state(&client, 1)).await.map(drop)
}

/// Connects, however long it takes; `None` when it was told to stop.
pub(crate) async fn open_patiently(config: &SchedulerConfig, stop: &CancellationToken) -> Option<Client> {
    open_until(config, stop, |_| false).await.ok().flatten()
}

/// Connects, however long it takes, unless it meets an error that waiting does not mend.
pub(crate) async fn open_until(
    config: &SchedulerConfig,
    stop: &CancellationToken,
    is_final: impl Fn(&Error) -> bool,
) -> Result<Option<Client>, Error> {
    let mut backoff = Backoff::new();
    loop {
        let error = tokio::select! {
            () = stop.cancelled() => return Ok(None),
            opened = open(config) => match opened {
                Ok(client) => return Ok(Some(client)),
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => error,
            },
        };
        let pause = backoff.next_delay();
        let cause = causes(&error);
        tracing::warn!(%error, cause, retry_in_ms = millis(pause), "the scheduler has no connection");
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Bounds a call: a frozen server answers nothing.
pub(crate) async fn within<T>(
    after: Duration,
    operation: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(after, call).await.unwrap_or(Err(Error::Timeout { operation, after }))
}

/// What led to an error, the nearest first: what Postgres says stands behind what the driver does.
pub(crate) fn causes(error: &Error) -> String {
    let first = std::error::Error::source(error);
    let chain = std::iter::successors(first, |cause| cause.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
