//! A server's first look at its database. Only what Postgres itself answers is an answer: a login that cannot be used and a
//! schema that is missing end the start, a server that cannot be reached is waited for.

use std::time::Duration;

use jobforge_core::connect::{Backoff, with_connection};
use jobforge_core::migrate::{self, FileState};
use jobforge_core::{Error, preflight, rpc};
use secrecy::SecretString;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::config::ServerConfig;
use crate::serve::StartError;

/// How long one login's look may take: a frozen server takes connections and says nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause between two looks.
const LONGEST: Duration = Duration::from_secs(1);

/// What the first look found.
#[derive(Debug)]
pub(crate) enum Found {
    /// The server may serve; the token of its first key, while there is no key.
    Fit(Option<SecretString>),
    /// Nobody answers.
    Away,
}

/// Looks once, as each login, and lets requests in when all is well.
pub(crate) async fn look(app: &App) -> Result<Found, StartError> {
    let config = &app.config;
    let others =
        [("database_url", Some(&config.tenant_url)), ("server.worker_url", config.worker_url.as_ref())];
    let looked = async {
        for (name, url) in others {
            if let Some(url) = url {
                bounded(with_connection(url, async |client| preflight::check(&client).await))
                    .await
                    .map_err(|error| StartError::Login(name, error))?;
            }
        }
        look_as_operator(config).await
    };
    match looked.await {
        Ok(has_keys) => {
            let token = (!has_keys).then(|| app.bootstrap.offer());
            app.opened.cancel();
            Ok(Found::Fit(token))
        }
        Err(StartError::Login(_, error)) if error.is_transient() => {
            app.db.outage.begin(&error);
            Ok(Found::Away)
        }
        Err(error) => Err(error),
    }
}

/// Looks until somebody answers; `None` when the server ended before.
pub(crate) async fn wait(app: &App) -> Option<Result<Option<SecretString>, StartError>> {
    let mut backoff = Backoff::new();
    let looks = async {
        loop {
            sleep(backoff.next_delay().min(LONGEST)).await;
            match look(app).await {
                Ok(Found::Fit(token)) => return Ok(token),
                Ok(Found::Away) => {}
                Err(error) => return Err(error),
            }
        }
    };
    tokio::select! {
        found = looks => Some(found),
        () = app.stopped() => None,
    }
}

/// Whether there are keys; the schema must be there for that.
async fn look_as_operator(config: &ServerConfig) -> Result<bool, StartError> {
    let asked = with_connection(&config.operator_url, async |client| {
        preflight::check(&client).await?;
        let status = migrate::status(&client).await?;
        let pending = status.migrations.iter().chain(&status.functions);
        let pending = pending.filter(|(_, state)| *state == FileState::Pending).map(|(name, _)| name.clone());
        let pending: Vec<String> = pending.collect();
        let has_keys = if pending.is_empty() { rpc::has_keys(&client).await? } else { false };
        Ok((pending, has_keys))
    });
    let (pending, has_keys) =
        bounded(asked).await.map_err(|error| StartError::Login("server.operator_url", error))?;
    match pending.first() {
        Some(first) => Err(StartError::Schema { first: first.clone(), count: pending.len() }),
        None => Ok(has_keys),
    }
}

async fn bounded<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Err(Error::Timeout { operation: "connect", after: PATIENCE });
    timeout(PATIENCE, call).await.unwrap_or_else(late)
}
