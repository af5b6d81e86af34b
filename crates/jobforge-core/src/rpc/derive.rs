//! The database's own derivation of dedupe keys, by which ours is checked.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::Payload;
use super::wire::{Columns, Json};
use crate::error::Error;

/// The dedupe key of a payload as the database derives it; [`crate::dedupe::dedupe_key`] needs no call.
pub async fn derive_dedupe_key<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    job_type: &str,
    payload: &Payload,
) -> Result<String, Error> {
    const OPERATION: &str = "dedupe_key";
    let row = c
        .query_typed_one(
            "select jobforge.dedupe_key(p_tenant_id => $1, p_type => $2, p_payload => $3)",
            &[(&tenant, Type::UUID), (&job_type, Type::TEXT), (&Json::from(payload), Type::JSONB)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// A value with sorted keys, no spaces and plain numbers, as the database writes it.
pub async fn canonical<C: GenericClient>(c: &C, value: &Payload) -> Result<String, Error> {
    const OPERATION: &str = "canonical";
    let row = c
        .query_typed_one("select jobforge.canonical(p_value => $1)", &[(&Json::from(value), Type::JSONB)])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
