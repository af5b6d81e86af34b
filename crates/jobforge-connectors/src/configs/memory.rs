//! Configs that live as long as the process: for tests, and for workers that know theirs from elsewhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use jobforge_worker::Context;
use uuid::Uuid;

use super::{ConfigsError, ConnectorConfigs, Settings};

/// Configs in memory, by tenant and name.
#[derive(Debug, Default)]
pub struct MemoryConfigs {
    kept: Mutex<BTreeMap<(Uuid, String), Kept>>,
}

#[derive(Debug)]
struct Kept {
    settings: Settings,
    disabled: Option<String>,
}

impl MemoryConfigs {
    /// Adds or replaces a config.
    pub fn put(&self, tenant: Uuid, name: impl Into<String>, settings: Settings) {
        self.lock().insert((tenant, name.into()), Kept { settings, disabled: None });
    }

    /// Why a config is disabled, if it is.
    pub fn disabled(&self, tenant: Uuid, name: &str) -> Option<String> {
        self.lock().get(&(tenant, name.to_owned()))?.disabled.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Uuid, String), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectorConfigs for MemoryConfigs {
    fn find<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Settings>, ConfigsError>> {
        let found = match self.lock().get(&(context.tenant_id(), name.to_owned())) {
            Some(Kept { disabled: Some(reason), .. }) => {
                Err(ConfigsError::Disabled { name: name.to_owned(), reason: reason.clone() })
            }
            Some(kept) => Ok(Some(kept.settings.clone())),
            None => Ok(None),
        };
        Box::pin(std::future::ready(found))
    }

    fn disable<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigsError>> {
        if let Some(kept) = self.lock().get_mut(&(context.tenant_id(), name.to_owned())) {
            kept.disabled = Some(reason.to_owned());
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
