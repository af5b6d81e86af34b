//! The connectors that make something out of a payload and reach nothing but the database.

use jobforge_worker::{HandlerError, WorkerBuilder};

use crate::{qr, report};

/// Adds the handlers of `connector.report.generate` and `connector.qr.generate`.
#[must_use]
pub fn register_generators(builder: WorkerBuilder) -> WorkerBuilder {
    builder.handle(report::TYPE, report::generate).handle(qr::TYPE, qr::generate)
}

/// A failure that no retry mends.
pub(crate) fn permanent(error: impl std::error::Error + Send + Sync + 'static) -> HandlerError {
    HandlerError::from(error).permanent()
}
