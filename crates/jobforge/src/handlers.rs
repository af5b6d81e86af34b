//! What the worker of this executable can run: the demo types, the connectors, and the programs of its file.

use std::sync::Arc;

use anyhow::{Context, Result};
use jobforge_connectors::configs::DatabaseConfigs;
use jobforge_connectors::egress::{Egress, EgressSettings};
use jobforge_worker::{Worker, WorkerBuilder, WorkerConfig};

use crate::config::Config;
use crate::demo;
use crate::programs::Programs;
use crate::secrets::{seal_keys, secret_env};

/// Every handler there is, before they have a worker.
pub(crate) struct Handlers {
    egress: Egress,
    configs: Arc<DatabaseConfigs>,
    programs: Programs,
}

impl Handlers {
    /// With the keys and secrets of this process's environment.
    pub(crate) fn new(config: &Config, egress: &EgressSettings, programs: Programs) -> Result<Handlers> {
        let env = secret_env(&config.worker.secret_env).context("worker.secret_env is not usable")?;
        let configs = Arc::new(DatabaseConfigs::new(seal_keys()?, env));
        Ok(Handlers { egress: Egress::new(egress)?, configs, programs })
    }

    /// A worker with all of them; a program of the file wins over another handler of its name.
    pub(crate) fn builder(self, config: WorkerConfig) -> WorkerBuilder {
        let builder = demo::register(Worker::builder(self.programs.heed(config)));
        let builder = jobforge_connectors::register(builder, self.egress, self.configs);
        let builder = jobforge_connectors::register_generators(builder);
        self.programs.handle(builder)
    }
}
