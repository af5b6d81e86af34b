//! Which database a command works on, and as whom.
//!
//! What is given (flag, environment, file) is used as it is. Without it, a development server that runs here
//! (`jobforge dev`) is used, with the login that fits what the command does.

use std::path::{Path, PathBuf};

use anyhow::Result;
use jobforge_core::connect::connect;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::config::Config;
use crate::dev::home::{DevFile, find_dev_file};
use crate::dev::logins::{APP, OPERATOR, WORKER};
use crate::failure::Usage;
use crate::logs::hide_password;

/// What a command does to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Enqueues and looks.
    Produce,
    /// Claims and reports.
    Work,
    /// Leads, registers types and tenants, lists workers.
    Operate,
}

/// A database and the login to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) direct_url: Option<String>,
    tenant: Option<Uuid>,
    /// Where the development server that runs here keeps its artifacts.
    artifacts_dir: Option<PathBuf>,
}

impl Target {
    /// The database of the settings, or else of the development server that runs here.
    pub(crate) fn resolve(config: &Config, purpose: Purpose) -> Result<Target> {
        if let Some(url) = &config.database_url {
            return Ok(Target {
                url: url.clone(),
                direct_url: config.direct_url.clone(),
                tenant: config.tenant,
                artifacts_dir: None,
            });
        }
        let dev = find_dev_file(config.data_dir.as_deref()).ok_or_else(|| {
            Usage::new(
                "no database: pass --database-url, set JOBFORGE_DATABASE_URL, or run `jobforge dev` in this directory \
                 (one that runs with --data-dir is found by JOBFORGE_DATA_DIR)",
            )
        })?;
        let login = match purpose {
            Purpose::Produce => APP,
            Purpose::Work => WORKER,
            Purpose::Operate => OPERATOR,
        };
        let DevFile { tenant_id, .. } = dev.read()?;
        let url = dev.url_as(login)?;
        hide_password(&url);
        tracing::debug!(dir = %dev.dir().display(), login, "uses the development server");
        let tenant = config.tenant.or(Some(tenant_id));
        Ok(Target { url, direct_url: None, tenant, artifacts_dir: Some(dev.artifacts_dir()) })
    }

    /// Connects; the connection ends with the client.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let (client, connection) = connect(&self.url).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Where artifacts are unless the settings say it.
    pub(crate) fn artifacts_dir(&self) -> Option<&Path> {
        self.artifacts_dir.as_deref()
    }

    /// Whose jobs the command is about.
    pub(crate) fn tenant(&self) -> Result<Uuid> {
        self.tenant.ok_or_else(|| Usage::new("no tenant: pass --tenant or set JOBFORGE_TENANT").into())
    }
}
