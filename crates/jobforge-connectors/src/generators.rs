//! The connectors that make something out of a payload and reach nothing but the database.

use jobforge_worker::WorkerBuilder;

use crate::{qr, report};

/// Adds the handlers of `connector.report.generate` and `connector.qr.generate`.
#[must_use]
pub fn register_generators(builder: WorkerBuilder) -> WorkerBuilder {
    builder.handle(report::TYPE, report::generate).handle(qr::TYPE, qr::generate)
}
