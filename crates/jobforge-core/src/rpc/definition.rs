//! Definitions: the job types there are, and their defaults.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use crate::error::Error;

/// A job type. What is `None` stays as it is, or takes the default when the type is new.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The type's name.
    pub key: String,
    /// What its jobs do.
    pub description: Option<String>,
    /// The queue they wait in.
    pub queue: Option<String>,
    /// Smaller is sooner.
    pub priority: Option<i32>,
    /// How long one attempt may take.
    pub timeout_seconds: Option<i32>,
    /// How often they may fail.
    pub max_attempts: Option<i32>,
    /// How many workers they may kill.
    pub max_deaths: Option<i32>,
    /// `standard`, `quick` or `patient`.
    pub retry_preset: Option<String>,
    /// The pause after the first failure.
    pub retry_base_ms: Option<i64>,
    /// By what it grows with each further failure.
    pub retry_factor: Option<f32>,
    /// The longest pause.
    pub retry_cap_ms: Option<i64>,
    /// By what share it is spread, 0 to 1.
    pub retry_jitter: Option<f32>,
    /// How long history is kept: `day`, `week`, `month` or `year`.
    pub retention: Option<String>,
    /// Whether jobs of this type may be made.
    pub is_active: Option<bool>,
}

impl Definition {
    /// The type of this name with nothing said about it.
    pub fn new(key: impl Into<String>) -> Definition {
        Definition { key: key.into(), ..Definition::default() }
    }
}

/// Makes a job type known or changes it.
pub async fn upsert_definition<C: GenericClient>(c: &C, definition: &Definition) -> Result<(), Error> {
    c.query_typed_one(
        "select jobforge.upsert_definition(p_key => $1, p_description => $2, p_queue => $3,
           p_priority => $4, p_timeout_seconds => $5, p_max_attempts => $6, p_max_deaths => $7,
           p_retry_preset => $8, p_retry_base_ms => $9, p_retry_factor => $10, p_retry_cap_ms => $11,
           p_retry_jitter => $12, p_retention => $13, p_is_active => $14)",
        &[
            (&definition.key, Type::TEXT),
            (&definition.description, Type::TEXT),
            (&definition.queue, Type::TEXT),
            (&definition.priority, Type::INT4),
            (&definition.timeout_seconds, Type::INT4),
            (&definition.max_attempts, Type::INT4),
            (&definition.max_deaths, Type::INT4),
            (&definition.retry_preset, Type::TEXT),
            (&definition.retry_base_ms, Type::INT8),
            (&definition.retry_factor, Type::FLOAT4),
            (&definition.retry_cap_ms, Type::INT8),
            (&definition.retry_jitter, Type::FLOAT4),
            (&definition.retention, Type::TEXT),
            (&definition.is_active, Type::BOOL),
        ],
    )
    .await
    .map_err(|error| Error::call("upsert_definition", error))?;
    Ok(())
}
