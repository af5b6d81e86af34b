//! What definitions say of payloads: the schema they must fit, and what of them is never shown.

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::job::Payload;
use super::new_job::NewJob;
use super::wire::Columns;
use crate::error::Error;
use crate::schema::{Problem, Schema};

/// The rules of a job type that has any.
#[derive(Clone, Debug)]
pub struct DefinitionRules {
    /// The type.
    pub key: String,
    /// When its definition was changed last.
    pub updated_at: Timestamp,
    /// What its payloads must fit.
    pub arg_schema: Option<Payload>,
    /// What of its payloads and results is redacted, with what the schema marks `writeOnly`.
    pub redact: Vec<String>,
}

/// The rules of these types; none for a type without a schema and redaction.
pub async fn definition_rules<C: GenericClient>(
    c: &C,
    types: &[String],
) -> Result<Vec<DefinitionRules>, Error> {
    const OPERATION: &str = "definition_rules";
    let rows = c
        .query_typed(
            "select r.key, r.updated_at, r.arg_schema, r.redact from jobforge.definition_rules(p_types => $1) as r",
            &[(&types, Type::TEXT_ARRAY)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let read = |row| {
        let mut columns = Columns::of(OPERATION, row);
        Ok(DefinitionRules {
            key: columns.take()?,
            updated_at: columns.take()?,
            arg_schema: columns.json_opt()?,
            redact: columns.take()?,
        })
    };
    rows.iter().map(read).collect()
}

/// Refuses a job whose payload does not fit its type's schema, with all that is wrong with it. For hosts, before
/// they enqueue: the database itself takes what is no schema's business, and the worker looks again.
pub async fn validate_job<C: GenericClient>(c: &C, job: &NewJob) -> Result<(), Error> {
    let rules = definition_rules(c, std::slice::from_ref(&job.job_type)).await?;
    let Some(schema) = rules.into_iter().find_map(|rules| rules.arg_schema) else { return Ok(()) };
    let invalid = |problems: Vec<Problem>| Error::Invalid { job_type: job.job_type.clone(), problems };
    let schema =
        serde_json::from_str(schema.get()).map_err(|error| Error::shape("definition_rules", error))?;
    Schema::compile(&schema).and_then(|schema| schema.validate_text(job.payload.get())).map_err(invalid)
}
