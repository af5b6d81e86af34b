//! What the worker of this executable can run: the demo types and the connectors.

use std::sync::Arc;

use anyhow::Result;
use jobforge_connectors::configs::MemoryConfigs;
use jobforge_connectors::egress::{Egress, EgressSettings};
use jobforge_worker::{Worker, WorkerConfig};

use crate::demo;
use crate::programs::Programs;

/// A worker with every handler there is; a program of its file wins over another handler of its name.
pub(crate) fn worker(config: WorkerConfig, egress: &EgressSettings, programs: &Programs) -> Result<Worker> {
    let builder = demo::register(Worker::builder(programs.heed(config)));
    let configs = Arc::new(MemoryConfigs::default());
    let builder = jobforge_connectors::register(builder, Egress::new(egress)?, configs);
    Ok(programs.handle(builder).build()?)
}
