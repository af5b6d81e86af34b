//! Sealing, as the server asks for it: secrets given in clear leave it sealed. Whoever starts the server knows how.

use std::fmt;

use jobforge_core::StoredSecret;
use secrecy::SecretString;
use uuid::Uuid;

/// Seals secrets of connector configs, so that only workers with its key open them.
pub trait Sealer: fmt::Debug + Send + Sync {
    /// Seals a secret for its place. No message may repeat the secret.
    fn seal(&self, place: SealPlace<'_>, secret: &SecretString) -> Result<StoredSecret, SealError>;
}

/// Where a sealed secret will stand; it opens nowhere else.
#[derive(Clone, Copy, Debug)]
pub struct SealPlace<'a> {
    /// Whose it is.
    pub tenant: Uuid,
    /// The connector config it belongs to.
    pub config: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// Why a secret was not sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// This secret cannot be: it is empty or too long.
    #[error("{0}")]
    Unfit(String),
    /// None can be now: there is no key.
    #[error("{0}")]
    Unavailable(String),
}
