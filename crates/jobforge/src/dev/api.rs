//! The HTTP API of a development server.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context, Result};
use jobforge_server::auth::TokenConfig;
use jobforge_server::{Server, ServerConfig, ServerHandle, StartError};

use crate::broker::broker_check;
use crate::config::{Config, ServerLogins};
use crate::dev::roles::Urls;
use crate::dev::tick::DueJobs;
use crate::sealer::KeySealer;
use crate::secrets::seal_keys;

/// What a development server has beside its settings.
pub(crate) struct Given {
    pub(crate) due: DueJobs,
    pub(crate) tokens: Option<TokenConfig>,
}

/// Refuses an address that cannot be listened on, before anything is made.
pub(crate) fn check_free(address: SocketAddr) -> Result<()> {
    TcpListener::bind(address).map(drop).with_context(|| format!("--listen {address}: cannot listen there"))
}

/// Starts it where it was asked for, or else where the settings say; only then another port does as well.
pub(crate) async fn start(
    config: &Config,
    urls: &Urls,
    given: Given,
    asked: Option<SocketAddr>,
) -> Result<ServerHandle> {
    let logins = ServerLogins {
        tenant: urls.app.clone(),
        operator: urls.operator.clone(),
        worker: Some(urls.worker.clone()),
    };
    let settings = ServerConfig {
        development: true,
        tick: Some(Arc::new(given.due)),
        tokens: given.tokens,
        broker: broker_check(config)?,
        sealer: Some(Arc::new(KeySealer(seal_keys()?))),
        ..config.server.config(logins)
    };
    let address = asked.unwrap_or(config.server.listen);
    match Server::new(settings.clone()).await?.start(address).await {
        Err(StartError::Listen(_, error)) if asked.is_none() && error.kind() == ErrorKind::AddrInUse => {
            Ok(Server::new(settings).await?.start(SocketAddr::new(address.ip(), 0)).await?)
        }
        started => Ok(started?),
    }
}
