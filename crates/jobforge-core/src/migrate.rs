//! Migrations.

/// A migration that failed.
#[derive(Debug, thiserror::Error)]
#[error("migration failed")]
pub struct MigrateError;

impl MigrateError {
    pub(crate) fn driver_error(&self) -> Option<&tokio_postgres::Error> {
        None
    }
}
