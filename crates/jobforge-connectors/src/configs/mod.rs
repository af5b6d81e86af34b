//! What connectors are set up with, per tenant: settings and secrets, found by name while a job runs.
//!
//! A secret's value is nowhere in the database: it stands in the worker's environment ([`SecretEnv`]), or it is
//! sealed with a key from there ([`SealKeys`]). This library reads no environment: its host hands both over.

mod database;
mod env;
mod reseal;
mod seal;

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use jobforge_worker::{Context, HandlerError};
use secrecy::SecretString;

pub use database::DatabaseConfigs;
pub use env::{SecretEnv, SecretEnvError};
pub use reseal::{ResealError, Resealed, Unopened, reseal};
pub use seal::{MAX_SECRET, SealError, SealKeys, Sealed, SecretPlace, new_key};

/// Where a connector finds what its job's tenant set up.
pub trait ConnectorConfigs: Send + Sync {
    /// The config of this name; `None` where the tenant has none.
    fn find<'a>(
        &'a self,
        ctx: &'a Context,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Settings>, ConfigError>>;

    /// Takes the config out of use, until somebody enables it again; false where it was disabled before.
    fn disable<'a>(
        &'a self,
        ctx: &'a Context,
        name: &'a str,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<bool, ConfigError>>;
}

/// A config, opened for the job that asked for it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The settings, a JSON object.
    pub settings: serde_json::Value,
    /// The secrets by name.
    pub secrets: BTreeMap<String, SecretString>,
}

/// Why a config cannot be had. No message has a secret's value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
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
    #[error(transparent)]
    Database(#[from] jobforge_core::Error),
}

impl ConfigError {
    /// Whether another attempt of the job may succeed without anybody changing the config.
    pub fn is_transient(&self) -> bool {
        match self {
            ConfigError::Disabled { .. } | ConfigError::Settings { .. } => false,
            ConfigError::Sealed { source, .. } => source.is_transient(),
            ConfigError::Env { source, .. } => source.is_transient(),
            ConfigError::Database(_) => true,
        }
    }

    /// The job's failure: permanent unless another attempt may succeed.
    pub fn into_handler_error(self) -> HandlerError {
        let transient = self.is_transient();
        let error = HandlerError::from(self);
        if transient { error } else { error.permanent() }
    }
}
