//! Sessions of the web page: known to the database by the SHA-256 of their id, each of an API key.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::key::KeyScope;
use super::wire::{Columns, clean};
use crate::error::Error;

/// A session that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSession {
    /// The key it was begun with.
    pub key_id: String,
    /// What that may do, and for whom.
    pub scope: KeyScope,
    /// When it ends by itself.
    pub expires_at: Timestamp,
}

/// Begins a session of this key; tells when it ends.
pub async fn create_session<C: GenericClient>(
    c: &C,
    id_sha256: &[u8; 32],
    key_id: &str,
    lifetime: Duration,
) -> Result<Timestamp, Error> {
    const OPERATION: &str = "create_session";
    let row = c
        .query_typed_one(
            "select jobforge.create_session(p_id_sha256 => $1, p_key_id => $2, p_lifetime => make_interval(secs => $3))",
            &[
                (&id_sha256.as_slice(), Type::BYTEA),
                (&clean(key_id), Type::TEXT),
                (&lifetime.as_secs_f64(), Type::FLOAT8),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// The session whose id has this hash; `None` where there is none that lives.
pub async fn find_session<C: GenericClient>(
    c: &C,
    id_sha256: &[u8; 32],
) -> Result<Option<FoundSession>, Error> {
    const OPERATION: &str = "find_session";
    let row = c
        .query_typed_opt(
            "select s.key_id, s.role, s.tenant_id, s.expires_at from jobforge.find_session(p_id_sha256 => $1) as s",
            &[(&id_sha256.as_slice(), Type::BYTEA)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    row.map(|row| {
        let mut columns = Columns::of(OPERATION, &row);
        Ok(FoundSession {
            key_id: columns.take()?,
            scope: KeyScope::read(OPERATION, &mut columns)?,
            expires_at: columns.take()?,
        })
    })
    .transpose()
}

/// Ends a session and tells the servers; false where there is none.
pub async fn end_session<C: GenericClient>(c: &C, id_sha256: &[u8; 32]) -> Result<bool, Error> {
    const OPERATION: &str = "end_session";
    let row = c
        .query_typed_one(
            "select jobforge.end_session(p_id_sha256 => $1)",
            &[(&id_sha256.as_slice(), Type::BYTEA)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
