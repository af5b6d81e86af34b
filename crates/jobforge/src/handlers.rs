//! What the worker of this executable can run: the demo types and the connectors.

use std::sync::Arc;

use anyhow::Result;
use jobforge_connectors::configs::MemoryConfigs;
use jobforge_connectors::egress::{Egress, EgressSettings};
use jobforge_worker::{Worker, WorkerConfig};

use crate::demo;

/// A worker with every handler there is.
pub(crate) fn worker(config: WorkerConfig, egress: &EgressSettings) -> Result<Worker> {
    let builder = demo::register(Worker::builder(config));
    let configs = Arc::new(MemoryConfigs::default());
    Ok(jobforge_connectors::register(builder, Egress::new(egress)?, configs).build()?)
}
