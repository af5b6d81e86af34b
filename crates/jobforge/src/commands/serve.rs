//! `jobforge serve`: the HTTP API, until it is told to stop.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use jobforge_server::{Server, ServerConfig};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::broker::broker_check;
use crate::cli::ServeArgs;
use crate::config::{Config, ServerLogins};
use crate::failure::Usage;
use crate::output::{Output, say};
use crate::sealer::KeySealer;
use crate::secrets::seal_keys;
use crate::signals::Signals;
use crate::target::{Purpose, Target};
use crate::tokens::token_config;

pub(crate) async fn run(config: &Config, args: &ServeArgs, output: Output) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let server = Server::new(server_config(config)?).await?;
    let mut server = server.start(args.listen.unwrap_or(config.server.listen)).await?;
    let url = format!("http://{}", server.address());
    tracing::info!(url, "the server listens");
    output.answer(&json!({ "url": url }), || {
        format!("JobForge listens on {url}; {url}/docs tells the routes")
    })?;
    // Only until Postgres was there for the first time: what it says then decides whether this server can serve at all.
    let serving = async {
        let token = server.opened().await?;
        tracing::info!(url, "the server is ready");
        if let Some(token) = token {
            offer_bootstrap(&url, &token);
        }
        std::future::pending().await
    };
    tokio::select! {
        refused = serving => return refused,
        () = signals.next() => {}
    }
    tracing::info!("the server stops");
    match signals.unless_repeated(server.shutdown()).await {
        Some(()) => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::from(130)),
    }
}

/// Without any key nobody could make the first one. To the console alone, never to a log.
fn offer_bootstrap(url: &str, token: &SecretString) {
    say(&format!(
        "There is no API key yet. Make the first one, a super-admin's, on this machine; it is shown once:\n\
         \x20 curl -X POST {url}/api/v1/bootstrap -H 'Content-Type: application/json' -d '{{\"token\": \"{}\"}}'\n\
         The token ends with its use, and with this process.",
        token.expose_secret()
    ));
}

/// The logins of the settings; without a database in them those of the development server that runs here.
fn server_config(config: &Config) -> Result<ServerConfig> {
    let settings = &config.server;
    let of_dev = |purpose| match config.database_url {
        None => Target::resolve(config, purpose).map(|target| Some(target.url)),
        Some(_) => Ok(None),
    };
    let Target { url: tenant, direct_url, .. } = Target::resolve(config, Purpose::Produce)?;
    let operator =
        settings.operator_url.clone().map_or_else(|| of_dev(Purpose::Operate), |url| Ok(Some(url)))?;
    let operator = operator.ok_or_else(|| {
        Usage::new("no operator login: set server.operator_url (JOBFORGE_SERVER__OPERATOR_URL)")
    })?;
    let worker = settings.worker_url.clone().map_or_else(|| of_dev(Purpose::Work), |url| Ok(Some(url)))?;
    let tokens = token_config(&settings.tokens, || config.egress.settings())?;
    let sealer = Some(Arc::new(KeySealer(seal_keys()?)) as _);
    let broker = broker_check(config)?;
    let config = settings.config(ServerLogins { tenant, operator, worker });
    Ok(ServerConfig { direct_url, sealer, tokens, broker, ..config })
}
