//! Configs as the database has them, opened with this process's keys and environment.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jobforge_core::{Error, FoundConfig, StoredSecret, rpc};
use jobforge_worker::Context;
use secrecy::SecretString;
use uuid::Uuid;

use super::env::SecretEnv;
use super::seal::{SealKeys, Sealed, SecretPlace};
use super::{ConfigsError, ConnectorConfigs, Settings};

/// Finds configs through the worker's own connection; every question is fenced by the job's lease.
#[derive(Debug)]
pub struct DatabaseConfigs {
    keys: SealKeys,
    env: SecretEnv,
}

impl DatabaseConfigs {
    /// With these keys, and these variables of the environment.
    pub fn new(keys: SealKeys, env: SecretEnv) -> DatabaseConfigs {
        DatabaseConfigs { keys, env }
    }

    /// Opens what was found.
    fn open(&self, tenant: Uuid, name: &str, found: FoundConfig) -> Result<Settings, ConfigsError> {
        if let Some(reason) = found.disabled_reason {
            return Err(ConfigsError::Disabled { name: name.to_owned(), reason });
        }
        let settings = serde_json::from_str(found.settings.get())
            .map_err(|source| ConfigsError::Settings { name: name.to_owned(), source })?;
        let opened = |(secret, stored): (String, StoredSecret)| {
            let value = self.open_secret(SecretPlace { tenant, config: name, secret: &secret }, stored)?;
            Ok((secret, value))
        };
        let secrets: Result<BTreeMap<_, _>, ConfigsError> = found.secrets.into_iter().map(opened).collect();
        Ok(Settings { settings, secrets: secrets? })
    }

    fn open_secret(
        &self,
        place: SecretPlace<'_>,
        stored: StoredSecret,
    ) -> Result<SecretString, ConfigsError> {
        let (name, secret) = (place.config.to_owned(), place.secret.to_owned());
        match stored {
            StoredSecret::Env(variable) => {
                self.env.get(&variable).map_err(|source| ConfigsError::Env { name, secret, source })
            }
            StoredSecret::Sealed { key_id, bytes } => self
                .keys
                .open(place, &Sealed { key_id, bytes })
                .map_err(|source| ConfigsError::Sealed { name, secret, source }),
        }
    }
}

impl ConnectorConfigs for DatabaseConfigs {
    fn find<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Settings>, ConfigsError>> {
        async move {
            let (lease, job) = (context.lease(), context.job_ref());
            let found = context
                .call("find_connector_config", |client| async move {
                    rpc::find_connector_config(&*client, lease, job, name).await
                })
                .await
                .map_err(|error| unavailable(name, error))?;
            found.map(|found| self.open(context.tenant_id(), name, found)).transpose()
        }
        .boxed()
    }

    fn disable<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigsError>> {
        async move {
            let (lease, job) = (context.lease(), context.job_ref());
            context
                .call("disable_connector_config", |client| async move {
                    rpc::disable_connector_config(&*client, lease, job, name, reason).await
                })
                .await
                .map(drop)
                .map_err(|error| unavailable(name, error))
        }
        .boxed()
    }
}

fn unavailable(name: &str, error: Error) -> ConfigsError {
    ConfigsError::Unavailable { name: name.to_owned(), source: Box::new(error) }
}
