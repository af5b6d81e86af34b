//! Connector configs: what a tenant sets up once (an address, headers, secrets) and jobs name.

mod memory;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use futures_util::future::BoxFuture;
use jobforge_worker::Context;
use secrecy::{ExposeSecret, SecretString};

pub use memory::MemoryConfigs;

/// Where connector configs are kept.
pub trait ConnectorConfigs: Send + Sync + 'static {
    /// The config of this name that the job's tenant has, if there is one.
    fn find<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Settings>, ConfigsError>>;

    /// Marks the config as not to be used until somebody enables it again.
    fn disable<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigsError>>;
}

/// One config, opened.
#[derive(Clone, Default)]
pub struct Settings {
    /// What everybody may see.
    pub settings: serde_json::Value,
    /// What nobody may see, by name.
    pub secrets: BTreeMap<String, SecretString>,
}

impl Settings {
    /// The text with every secret in it hidden: a receiver may send back what it was sent.
    #[must_use]
    pub fn hide(&self, text: String) -> String {
        let secrets =
            self.secrets.values().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty());
        secrets.fold(text, |text, secret| text.replace(secret, "***"))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.secrets.keys().collect();
        f.debug_struct("Settings").field("settings", &self.settings).field("secrets", &names).finish()
    }
}

/// Why a config cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigsError {
    /// Somebody or something disabled it.
    #[error("connector config {name} is disabled: {reason}")]
    Disabled {
        /// The config.
        name: String,
        /// Why.
        reason: String,
    },
    /// The place where configs are kept does not answer.
    #[error("connector config {name} cannot be read")]
    Unavailable {
        /// The config.
        name: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}
