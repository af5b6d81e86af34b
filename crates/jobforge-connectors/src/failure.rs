//! How connectors fail for good.

use std::error::Error;

use jobforge_worker::HandlerError;

/// A failure that no retry mends: a sentence, or an error with its causes.
pub(crate) fn permanent(why: impl Into<Box<dyn Error + Send + Sync>>) -> HandlerError {
    HandlerError::of(&*why.into()).permanent()
}
