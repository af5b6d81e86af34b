//! Collect: objects of the artifact store that no job holds any more.

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::Columns;
use crate::artifact::ArtifactId;
use crate::error::Error;

/// An object to be deleted, at once: who writes it anew is kept waiting for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Whose object it is.
    pub tenant_id: Uuid,
    /// Which.
    pub id: ArtifactId,
    /// The mark that the confirmation must name.
    pub doomed_at: Timestamp,
}

/// Looks at up to `limit` objects that may be held by nobody; those that are not are to be deleted.
pub async fn collect_artifacts<C: GenericClient>(c: &C, term: i64, limit: i32) -> Result<Vec<Doomed>, Error> {
    const OPERATION: &str = "collect_artifacts";
    let rows = c
        .query_typed(
            "select d.tenant_id, d.ref, d.doomed_at from jobforge.collect_artifacts(p_term => $1, p_limit => $2) as d",
            &[(&term, Type::INT8), (&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let read = |row| {
        let mut columns = Columns::of(OPERATION, row);
        let (tenant_id, name) = (columns.take()?, columns.take::<&str>()?);
        let id =
            ArtifactId::parse(name).ok_or_else(|| Error::shape(OPERATION, format_args!("ref {name}")))?;
        Ok(Doomed { tenant_id, id, doomed_at: columns.take()? })
    };
    rows.iter().map(read).collect()
}

/// Forgets objects that were deleted in the store, all of one call of [`collect_artifacts`]; tells how many
/// were still doomed.
pub async fn confirm_artifacts<C: GenericClient>(c: &C, term: i64, deleted: &[Doomed]) -> Result<i32, Error> {
    const OPERATION: &str = "confirm_artifacts";
    let Some(first) = deleted.first() else { return Ok(0) };
    let tenants: Vec<Uuid> = deleted.iter().map(|doomed| doomed.tenant_id).collect();
    let refs: Vec<String> = deleted.iter().map(|doomed| doomed.id.to_string()).collect();
    let row = c
        .query_typed_one(
            "select jobforge.confirm_artifacts(p_term => $1, p_tenant_ids => $2, p_refs => $3, p_doomed_at => $4)",
            &[
                (&term, Type::INT8),
                (&tenants, Type::UUID_ARRAY),
                (&refs, Type::TEXT_ARRAY),
                (&first.doomed_at, Type::TIMESTAMPTZ),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}
