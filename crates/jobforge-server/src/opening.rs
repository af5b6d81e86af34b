//! A server's first look at its database. Only what Postgres itself answers is an answer: a login that cannot be used or is
//! not registered and a schema that is missing end the start, a server that cannot be reached is waited for.

use std::time::Duration;

use jobforge_core::connect::{self, Backoff, with_connection};
use jobforge_core::migrate::{self, FileState};
use jobforge_core::{Error, NewJob, preflight, rpc};
use secrecy::SecretString;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

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
        let has_keys = look_as_operator(config).await?;
        are_registered(config).await?;
        Ok(has_keys)
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

/// Whether JobForge knows the logins: one that it does not know connects, and is refused each call. Asked for are a key and
/// a worker that are not there, and a job of no tenant.
async fn are_registered(config: &ServerConfig) -> Result<(), StartError> {
    let (tenant, operator) = (&config.tenant_url, &config.operator_url);
    let asked = with_connection(operator, async |client| rpc::find_api_key(&client, "").await.map(drop));
    is_registered("server.operator_url", operator, asked).await?;
    let nobodys = [(Uuid::nil(), NewJob::raw("", Box::default()))];
    let asked =
        with_connection(tenant, async |client| rpc::enqueue_gathered(&client, &nobodys).await.map(drop));
    is_registered("database_url", tenant, asked).await?;
    if let Some(worker) = &config.worker_url {
        let asked = with_connection(worker, async |client| rpc::wake_worker(&client, "").await.map(drop));
        is_registered("server.worker_url", worker, asked).await?;
    }
    Ok(())
}

/// Whether a call got past the question who asks, whatever became of it then.
async fn is_registered(
    name: &'static str,
    url: &str,
    asked: impl Future<Output = Result<(), Error>>,
) -> Result<(), StartError> {
    match bounded(asked).await {
        Err(error) if error.reason() == Some("login_not_bound") => {
            let known = connect::config(url).ok().and_then(|config| config.get_user().map(str::to_owned));
            let login = known.unwrap_or_else(|| "the_login".to_owned());
            Err(StartError::Unregistered { name, login, source: error })
        }
        Ok(()) | Err(Error::Refused { .. }) => Ok(()),
        Err(error) => Err(StartError::Login(name, error)),
    }
}

async fn bounded<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Err(Error::Timeout { operation: "connect", after: PATIENCE });
    timeout(PATIENCE, call).await.unwrap_or_else(late)
}
