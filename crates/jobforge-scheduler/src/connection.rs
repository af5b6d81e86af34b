//! A connection that is made again for ever.

use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::connect::{Backoff, connect};
use jobforge_core::preflight;
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

/// Connects, however long it takes; `None` when it was told to stop.
pub(crate) async fn open_patiently(config: &SchedulerConfig, stop: &CancellationToken) -> Option<Client> {
    let mut backoff = Backoff::new();
    loop {
        let error = tokio::select! {
            () = stop.cancelled() => return None,
            opened = open(config) => match opened {
                Ok(client) => return Some(client),
                Err(error) => error,
            },
        };
        let pause = backoff.next_delay();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        tracing::warn!(%error, cause, retry_in_ms = millis(pause), "the scheduler has no connection");
        tokio::select! {
            () = stop.cancelled() => return None,
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

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
