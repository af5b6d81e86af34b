//! Definitions: the job types there are, their defaults and limits.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use super::job::Payload;
use super::limit::{Clear, Hold};
use super::wire::{Columns, Json};
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
    /// How many of them may run at a time.
    pub max_in_flight: Option<i32>,
    /// How many of one concurrency key may run at a time.
    pub max_in_flight_per_key: Option<i32>,
    /// How many of them may start in a second.
    pub rate_per_second: Option<f64>,
    /// How many of them at once, after a time with none.
    pub rate_burst: Option<i32>,
    /// How long dead letters are kept: `day`, `week`, `month` or `year`.
    pub dead_retention: Option<String>,
    /// What their payloads must fit, a JSON Schema.
    pub arg_schema: Option<Payload>,
    /// What of their payloads and results is never shown, such as `/card/number` or `/items/*/secret`.
    pub redact: Option<Vec<String>>,
    /// What is taken away.
    pub clear: Vec<Clear>,
    /// What must be there already.
    pub expected: Expected,
}

/// What must be there for a change to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Whatever is there.
    #[default]
    Anything,
    /// Nothing: it is to be new.
    Nothing,
    /// What was changed last at this time, and not since.
    ChangedAt(Timestamp),
}

impl Expected {
    fn is_nothing(self) -> bool {
        self == Expected::Nothing
    }

    fn changed_at(self) -> Option<Timestamp> {
        match self {
            Expected::ChangedAt(at) => Some(at),
            Expected::Anything | Expected::Nothing => None,
        }
    }
}

impl Definition {
    /// The type of this name with nothing said about it.
    pub fn new(key: impl Into<String>) -> Definition {
        Definition { key: key.into(), ..Definition::default() }
    }
}

/// A job type as it stands.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListedDefinition {
    /// The type's name.
    pub key: String,
    /// What its jobs do.
    pub description: String,
    /// The queue they wait in.
    pub queue: String,
    /// Smaller is sooner.
    pub priority: i32,
    /// How long one attempt may take.
    pub timeout_seconds: i32,
    /// How often they may fail.
    pub max_attempts: i32,
    /// How many workers they may kill.
    pub max_deaths: i32,
    /// The pause after the first failure.
    pub retry_base_ms: i64,
    /// By what it grows with each further failure.
    pub retry_factor: f32,
    /// The longest pause.
    pub retry_cap_ms: i64,
    /// By what share it is spread.
    pub retry_jitter: f32,
    /// How long history is kept.
    pub retention: String,
    /// How long dead letters are kept.
    pub dead_retention: String,
    /// Whether jobs of this type may be made.
    pub is_active: bool,
    /// How many of them may run at a time.
    pub max_in_flight: Option<i32>,
    /// How many of one concurrency key may run at a time.
    pub max_in_flight_per_key: i32,
    /// How many of them may start in a second.
    pub rate_per_second: Option<f64>,
    /// How many of them at once.
    pub rate_burst: Option<i32>,
    /// What payloads must fit.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub arg_schema: Option<Payload>,
    /// What of payloads and results is never shown.
    pub redact: Vec<String>,
    /// The same, because the schema marks it `writeOnly`.
    pub write_only: Vec<String>,
    /// Since when it is known.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// The pause that holds it.
    pub pause: Option<Hold>,
}

/// Makes a job type known or changes it.
pub async fn upsert_definition<C: GenericClient>(c: &C, definition: &Definition) -> Result<(), Error> {
    c.query_typed_one(
        "select jobforge.upsert_definition(p_key => $1, p_description => $2, p_queue => $3,
           p_priority => $4, p_timeout_seconds => $5, p_max_attempts => $6, p_max_deaths => $7,
           p_retry_preset => $8, p_retry_base_ms => $9, p_retry_factor => $10, p_retry_cap_ms => $11,
           p_retry_jitter => $12, p_retention => $13, p_is_active => $14, p_max_in_flight => $15,
           p_max_in_flight_per_key => $16, p_rate_per_second => $17, p_rate_burst => $18,
           p_dead_retention => $19, p_clear => $20, p_arg_schema => $21, p_redact => $22,
           p_only_new => $23, p_unchanged_since => $24)",
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
            (&definition.max_in_flight, Type::INT4),
            (&definition.max_in_flight_per_key, Type::INT4),
            (&definition.rate_per_second, Type::FLOAT8),
            (&definition.rate_burst, Type::INT4),
            (&definition.dead_retention, Type::TEXT),
            (&Clear::names(&definition.clear), Type::TEXT_ARRAY),
            (&definition.arg_schema.as_ref().map(Json::from), Type::JSONB),
            (&definition.redact, Type::TEXT_ARRAY),
            (&definition.expected.is_nothing(), Type::BOOL),
            (&definition.expected.changed_at(), Type::TIMESTAMPTZ),
        ],
    )
    .await
    .map_err(|error| Error::call("upsert_definition", error))?;
    Ok(())
}

/// A page of definitions in the order of their keys, those after `after`.
pub async fn list_definitions<C: GenericClient>(
    c: &C,
    limit: i32,
    after: Option<&str>,
) -> Result<Vec<ListedDefinition>, Error> {
    look(c, limit, after, None).await
}

/// The definition of this key, if there is one.
pub async fn get_definition<C: GenericClient>(c: &C, key: &str) -> Result<Option<ListedDefinition>, Error> {
    Ok(look(c, 1, None, Some(key)).await?.pop())
}

async fn look<C: GenericClient>(
    c: &C,
    limit: i32,
    after: Option<&str>,
    key: Option<&str>,
) -> Result<Vec<ListedDefinition>, Error> {
    const OPERATION: &str = "list_definitions";
    let rows = c
        .query_typed(
            "select d.key, d.description, d.queue, d.priority, d.timeout_seconds, d.max_attempts, d.max_deaths,
               d.retry_base_ms, d.retry_factor, d.retry_cap_ms, d.retry_jitter, d.retention, d.dead_retention,
               d.is_active, d.max_in_flight, d.max_in_flight_per_key, d.rate_per_second, d.rate_burst,
               d.arg_schema, d.redact, d.write_only, d.created_at, d.updated_at, d.paused_at, d.paused_until,
               d.pause_reason, d.paused_by
             from jobforge.list_definitions(p_limit => $1, p_after => $2, p_key => $3) as d",
            &[(&limit, Type::INT4), (&after, Type::TEXT), (&key, Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row: &Row| read_definition(&mut Columns::of(OPERATION, row))).collect()
}

fn read_definition(columns: &mut Columns<'_>) -> Result<ListedDefinition, Error> {
    Ok(ListedDefinition {
        key: columns.take()?,
        description: columns.take()?,
        queue: columns.take()?,
        priority: columns.take()?,
        timeout_seconds: columns.take()?,
        max_attempts: columns.take()?,
        max_deaths: columns.take()?,
        retry_base_ms: columns.take()?,
        retry_factor: columns.take()?,
        retry_cap_ms: columns.take()?,
        retry_jitter: columns.take()?,
        retention: columns.take()?,
        dead_retention: columns.take()?,
        is_active: columns.take()?,
        max_in_flight: columns.take()?,
        max_in_flight_per_key: columns.take()?,
        rate_per_second: columns.take()?,
        rate_burst: columns.take()?,
        arg_schema: columns.json_opt()?,
        redact: columns.take()?,
        write_only: columns.take()?,
        created_at: columns.take()?,
        updated_at: columns.take()?,
        pause: Hold::read(columns)?,
    })
}
