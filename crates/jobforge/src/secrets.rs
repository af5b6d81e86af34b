//! Keys and secrets of this process's environment. Libraries read none of it: what they may have is handed over.

use std::env;

use anyhow::{Context, Result};
use jobforge_connectors::configs::{SealKeys, SecretEnv, SecretEnvError};
use secrecy::SecretString;

use crate::config::SecretReference;
use crate::failure::Usage;

/// The keys that seal and open secrets: `ID:BASE64,…`, the first one seals.
pub(crate) const SEAL_KEYS: &str = "JOBFORGE_SEAL_KEYS";
/// A name for the secret of tokens; `server.tokens.secret` may name another.
pub(crate) const TOKEN_SECRET: &str = "JOBFORGE_TOKEN_SECRET";
/// How variables with secrets begin unless `worker.secret_env` says otherwise.
pub(crate) const SECRET_PREFIX: &str = "JOBFORGE_SECRET_";

/// The keys of this process; none is as good as some, until something must be sealed or opened.
pub(crate) fn seal_keys() -> Result<SealKeys> {
    let text = env::var(SEAL_KEYS).map_or_else(|_| SecretString::default(), SecretString::from);
    SealKeys::parse(&text).map_err(|error| Usage::new(error.to_string())).context(SEAL_KEYS)
}

/// The secret that an issuer signs tokens with.
pub(crate) fn token_secret(reference: &SecretReference) -> Result<SecretString> {
    let name = reference.variable();
    let missing =
        || Usage::new(format!("{name} is not set: server.tokens.secret says that the secret is there"));
    Ok(env::var(name).map(SecretString::from).map_err(|_| missing())?)
}

/// What references may name, read from the environment when they are followed.
pub(crate) fn secret_env(allowed: &[String]) -> Result<SecretEnv, SecretEnvError> {
    SecretEnv::new(allowed, |name| env::var(name).ok().map(SecretString::from))
}
