//! Sealed secrets across tenants, for who seals them anew with another key.

use std::fmt;

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::{Columns, clean};
use crate::error::Error;

/// A secret as it is stored, with its place.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// Whose it is.
    pub tenant_id: Uuid,
    /// The connector config it belongs to.
    pub config: String,
    /// Its name.
    pub name: String,
    /// The key that opens it.
    pub key_id: String,
    /// What that key opens.
    pub bytes: Vec<u8>,
}

/// Without the bytes: they open with the key.
impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedSecret({} {} {} by {}: ***)", self.tenant_id, self.config, self.name, self.key_id)
    }
}

/// A page of secrets that are sealed with another key than this one, after the one given.
pub async fn list_sealed_secrets<C: GenericClient>(
    c: &C,
    unless_key_id: &str,
    limit: i32,
    after: Option<&SealedSecret>,
) -> Result<Vec<SealedSecret>, Error> {
    const OPERATION: &str = "list_sealed_secrets";
    let (tenant, config, name) =
        after.map_or((Uuid::nil(), "", ""), |last| (last.tenant_id, &last.config, &last.name));
    let rows = c
        .query_typed(
            "select s.tenant_id, s.config, s.name, s.key_id, s.sealed
             from jobforge.list_sealed_secrets(p_unless_key_id => $1, p_limit => $2, p_after_tenant_id => $3,
               p_after_config => $4, p_after_name => $5) as s",
            &[
                (&clean(unless_key_id), Type::TEXT),
                (&limit, Type::INT4),
                (&tenant, Type::UUID),
                (&config, Type::TEXT),
                (&name, Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let read = |columns: &mut Columns<'_>| {
        Ok(SealedSecret {
            tenant_id: columns.take()?,
            config: columns.take()?,
            name: columns.take()?,
            key_id: columns.take()?,
            bytes: columns.take()?,
        })
    };
    rows.iter().map(|row| read(&mut Columns::of(OPERATION, row))).collect()
}

/// Puts the same secret in its place, sealed with another key; false where it changed meanwhile.
pub async fn reseal_secret<C: GenericClient>(
    c: &C,
    was: &SealedSecret,
    key_id: &str,
    bytes: &[u8],
) -> Result<bool, Error> {
    const OPERATION: &str = "reseal_secret";
    let row = c
        .query_typed_one(
            "select jobforge.reseal_secret(p_tenant_id => $1, p_config => $2, p_name => $3, p_was => $4,
               p_key_id => $5, p_sealed => $6)",
            &[
                (&was.tenant_id, Type::UUID),
                (&was.config, Type::TEXT),
                (&was.name, Type::TEXT),
                (&was.bytes, Type::BYTEA),
                (&clean(key_id), Type::TEXT),
                (&bytes, Type::BYTEA),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
