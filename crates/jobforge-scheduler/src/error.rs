//! Why a scheduler did not start.

/// A scheduler that cannot run at all. Everything that may pass is retried instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings contradict themselves.
    #[error("the scheduler's settings are wrong: {0}")]
    Config(String),
    /// The login or the schema is not fit to run on.
    #[error("the scheduler cannot work on this database")]
    Unfit(#[source] jobforge_core::Error),
}
