//! Recall marks: where those who claimed before came to, for a worker that starts.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::cursor::Cursor;
use super::wire::Columns;
use crate::error::Error;

const OPERATION: &str = "recall_marks";

/// A cursor with the positions from which somebody with the same queues and types last swept, if there are any.
pub async fn recall_marks<C: GenericClient>(
    c: &C,
    queues: &[String],
    types: &[String],
) -> Result<Cursor, Error> {
    let row = c
        .query_typed_one(
            "select jobforge.recall_marks(p_queues => $1, p_types => $2)::text",
            &[(&queues, Type::TEXT_ARRAY), (&types, Type::TEXT_ARRAY)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    match Columns::of(OPERATION, &row).take::<Option<&str>>()? {
        Some(marks) => Cursor::recalled(marks).map_err(|error| Error::shape(OPERATION, error)),
        None => Ok(Cursor::default()),
    }
}
