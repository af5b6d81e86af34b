//! Tokens of an issuer: the settings with their secret, and the issuer's keys by the client that everything outbound
//! goes through.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jobforge_connectors::egress::{Egress, EgressSettings};
use jobforge_server::auth::{
    FetchJwks, Fetching, JWKS_LARGEST, JWKS_PATIENCE, PublishedKeys, TokenConfig, TokenKeys,
};
use url::Url;

use crate::config::{KeySettings, TokenSettings};
use crate::failure::Usage;
use crate::secrets::token_secret;

/// Whose tokens the server takes, if any. Whatever cannot work is told before anything starts.
pub(crate) fn token_config(
    settings: &TokenSettings,
    egress: impl FnOnce() -> Result<EgressSettings>,
) -> Result<Option<TokenConfig>> {
    let Some(taken) = settings.taken()? else { return Ok(None) };
    let keys = match taken.keys {
        KeySettings::Secret(reference) => TokenKeys::Secret(token_secret(reference)?),
        KeySettings::Published(url) => TokenKeys::Jwks(published(settings, &url, &egress()?)?),
    };
    let config = TokenConfig { keys, claims: taken.claims };
    match config.fault() {
        Some(fault) => Err(Usage::new(format!("server.tokens cannot be used: {fault}")).into()),
        None => Ok(Some(config)),
    }
}

fn published(settings: &TokenSettings, url: &Url, egress: &EgressSettings) -> Result<PublishedKeys> {
    let egress = Egress::new(egress)?;
    let refused = |error| Usage::new(format!("{error}: server.tokens.jwks_url, by the section egress"));
    egress.check(url).map_err(refused)?;
    Ok(PublishedKeys {
        algorithms: settings.jwks_algorithms.iter().map(|name| (*name).into()).collect(),
        refetch: Duration::from_secs(settings.jwks_refetch_seconds),
        max_age: Duration::from_secs(settings.jwks_max_age_seconds),
        ..PublishedKeys::new(url.as_str(), Arc::new(ByEgress(egress)))
    })
}

/// Fetches an issuer's keys.
#[derive(Debug)]
struct ByEgress(Egress);

impl FetchJwks for ByEgress {
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(async move {
            let url = Url::parse(url).context("no URL")?;
            Ok(self.0.fetch(&url, JWKS_PATIENCE, JWKS_LARGEST).await?.to_vec())
        })
    }
}
