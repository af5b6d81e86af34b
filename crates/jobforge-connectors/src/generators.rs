//! The connectors that make something out of a payload and reach nothing but the database.

use jobforge_core::Definition;
use jobforge_worker::{HandlerError, WorkerBuilder};

use crate::{qr, report};

/// Adds the handlers of `connector.report.generate` and `connector.qr.generate`.
#[must_use]
pub fn register_generators(builder: WorkerBuilder) -> WorkerBuilder {
    builder.handle(report::TYPE, report::generate).handle(qr::TYPE, qr::generate)
}

/// The same types as the database should know them.
pub fn generator_definitions() -> Vec<Definition> {
    let described = |key: &str, description: &str| Definition {
        description: Some(description.to_owned()),
        ..Definition::new(key)
    };
    vec![
        described(
            report::TYPE,
            "Makes a report in JSON, HTML or CSV of rows given or of the tenant's own jobs",
        ),
        described(qr::TYPE, "Makes a QR code of a text, as PNG"),
    ]
}

/// A failure that no retry mends.
pub(crate) fn permanent(error: impl std::error::Error + Send + Sync + 'static) -> HandlerError {
    HandlerError::from(error).permanent()
}
