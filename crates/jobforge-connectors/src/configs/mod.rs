//! What connectors are set up with, per tenant: settings and secrets, found by name while a job runs.
//!
//! A secret's value is nowhere in the database: it stands in the worker's environment ([`SecretEnv`]), or it is
//! sealed with a key from there ([`SealKeys`]). This library reads no environment: its host hands both over.

mod database;
mod env;
mod memory;
mod reseal;
mod seal;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use futures_util::future::BoxFuture;
use jobforge_worker::{Context, HandlerError};
use secrecy::SecretString;

pub use database::DatabaseConfigs;
pub use env::{SecretEnv, SecretEnvError, is_variable};
pub use memory::MemoryConfigs;
pub use reseal::{ResealError, Resealed, Unopened, reseal};
pub use seal::{MAX_SECRET, SealError, SealKeys, Sealed, SecretPlace, new_key};

/// Where a connector finds what its job's tenant set up.
pub trait ConnectorConfigs: Send + Sync + 'static {
    /// The config of this name; `None` where the tenant has none.
    fn find<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Settings>, ConfigsError>>;

    /// Takes the config out of use, until somebody enables it again.
    fn disable<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigsError>>;
}

/// A config, opened for the job that asked for it.
#[derive(Clone, Default)]
pub struct Settings {
    /// The settings, a JSON object.
    pub settings: serde_json::Value,
    /// The secrets by name.
    pub secrets: BTreeMap<String, SecretString>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.secrets.keys().collect();
        f.debug_struct("Settings").field("settings", &self.settings).field("secrets", &names).finish()
    }
}

/// Why a config cannot be had. No message has a secret's value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigsError {
    /// Somebody or something took it out of use.
    #[error("connector config {name} is disabled: {reason}")]
    Disabled {
        /// The config.
        name: String,
        /// Why it is.
        reason: String,
    },
    /// A sealed secret cannot be opened.
    #[error("secret {secret} of connector config {name} cannot be opened")]
    Sealed {
        /// The config.
        name: String,
        /// The secret.
        secret: String,
        /// What is wrong.
        #[source]
        source: SealError,
    },
    /// A reference leads nowhere.
    #[error("secret {secret} of connector config {name} cannot be had")]
    Env {
        /// The config.
        name: String,
        /// The secret.
        secret: String,
        /// What is wrong.
        #[source]
        source: SecretEnvError,
    },
    /// The settings are not JSON as this program reads it.
    #[error("the settings of connector config {name} cannot be read")]
    Settings {
        /// The config.
        name: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The database did not answer, or refused.
    #[error("connector config {name} cannot be read or changed")]
    Unavailable {
        /// The config.
        name: String,
        /// What is wrong.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ConfigsError {
    /// Whether another attempt of the job may succeed without anybody changing the config.
    pub fn is_transient(&self) -> bool {
        match self {
            ConfigsError::Disabled { .. } | ConfigsError::Settings { .. } => false,
            ConfigsError::Sealed { source, .. } => source.is_transient(),
            ConfigsError::Env { source, .. } => source.is_transient(),
            ConfigsError::Unavailable { .. } => true,
        }
    }

    /// The job's failure: permanent unless another attempt may succeed.
    pub fn into_handler_error(self) -> HandlerError {
        let transient = self.is_transient();
        let error = HandlerError::from(self);
        if transient { error } else { error.permanent() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let secrets = BTreeMap::from([
            ("token".to_owned(), SecretString::from("canary")),
            ("empty".to_owned(), SecretString::from("")),
        ]);
        let settings = Settings { settings: serde_json::json!({ "host": "h" }), secrets };
        let shown = format!("{settings:?}");
        assert!(shown.contains("token") && !shown.contains("canary"), "{shown}");
    }
}
