//! A definition as it is given.

use jobforge_core::schema::check_schema;
use jobforge_core::{Clear, Code, Definition, Payload};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::problem::{ErrorCode, Problem};
use crate::routes::admin::change::{self, Change, given};

/// A job type. What is left out stays as it is, or takes the default when the type is new; null takes a limit, the
/// schema or the redaction away.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefinitionInput {
    /// The type's name: 1 to 128 letters, digits, dots, colons, dashes.
    #[serde(default, deserialize_with = "given")]
    #[schema(example = "mail.send")]
    pub(super) key: Option<String>,
    /// What its jobs do.
    #[serde(default, deserialize_with = "given")]
    description: Option<String>,
    /// The queue they wait in.
    #[serde(default, deserialize_with = "given")]
    queue: Option<String>,
    /// Smaller is sooner.
    #[serde(default, deserialize_with = "given")]
    priority: Option<i32>,
    /// How long one attempt may take.
    #[serde(default, deserialize_with = "given")]
    timeout_seconds: Option<i32>,
    /// How often they may fail.
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<i32>,
    /// How many workers they may kill.
    #[serde(default, deserialize_with = "given")]
    max_deaths: Option<i32>,
    /// `standard`, `quick` or `patient`: sets the four below, as far as they are not given.
    #[serde(default, deserialize_with = "given")]
    retry_preset: Option<String>,
    /// The pause after the first failure.
    #[serde(default, deserialize_with = "given")]
    retry_base_ms: Option<i64>,
    /// By what it grows with each further failure.
    #[serde(default, deserialize_with = "given")]
    retry_factor: Option<f32>,
    /// The longest pause.
    #[serde(default, deserialize_with = "given")]
    retry_cap_ms: Option<i64>,
    /// By what share it is spread, 0 to 1.
    #[serde(default, deserialize_with = "given")]
    retry_jitter: Option<f32>,
    /// How long history is kept: `day`, `week`, `month` or `year`.
    #[serde(default, deserialize_with = "given")]
    retention: Option<String>,
    /// How long dead letters are kept: `day`, `week`, `month` or `year`.
    #[serde(default, deserialize_with = "given")]
    dead_retention: Option<String>,
    /// Whether jobs of this type may be made.
    #[serde(default, deserialize_with = "given")]
    is_active: Option<bool>,
    /// How many of them may run at a time; null: as many as there is room for.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    max_in_flight: Change<i32>,
    /// How many of one concurrency key may run at a time.
    #[serde(default, deserialize_with = "given")]
    max_in_flight_per_key: Option<i32>,
    /// How many of them may start in a second; null: any number.
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    rate_per_second: Change<f64>,
    /// How many of them at once, after a time with none.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    rate_burst: Change<i32>,
    /// What their payloads must fit, a JSON Schema (draft 7 or 2020-12); null: anything.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    arg_schema: Change<Payload>,
    /// What of payloads and results is never shown, such as `/card/number` or `/items/*/secret`.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>)]
    redact: Change<Vec<String>>,
}

impl DefinitionInput {
    /// The definition of this key, its schema checked.
    pub(super) fn definition(self, key: String) -> Result<Definition, Problem> {
        let mut clear = Vec::new();
        let (rate_per_second, rate_burst) = change::rate(self.rate_per_second, self.rate_burst, &mut clear)?;
        let arg_schema = self.arg_schema.value(Clear::ArgSchema, &mut clear);
        if let Some(schema) = &arg_schema {
            check(&key, schema)?;
        }
        Ok(Definition {
            description: self.description,
            queue: self.queue,
            priority: self.priority,
            timeout_seconds: self.timeout_seconds,
            max_attempts: self.max_attempts,
            max_deaths: self.max_deaths,
            retry_preset: self.retry_preset,
            retry_base_ms: self.retry_base_ms,
            retry_factor: self.retry_factor,
            retry_cap_ms: self.retry_cap_ms,
            retry_jitter: self.retry_jitter,
            retention: self.retention,
            dead_retention: self.dead_retention,
            is_active: self.is_active,
            max_in_flight: self.max_in_flight.value(Clear::MaxInFlight, &mut clear),
            max_in_flight_per_key: self.max_in_flight_per_key,
            rate_per_second,
            rate_burst,
            arg_schema,
            redact: self.redact.value(Clear::Redact, &mut clear),
            clear,
            ..Definition::new(key)
        })
    }
}

/// Everything that is wrong with a schema, each at its place in the body.
fn check(key: &str, schema: &Payload) -> Result<(), Problem> {
    let value = serde_json::from_str(schema.get());
    let value =
        value.map_err(|_| Problem::malformed("body_malformed", "arg_schema is no JSON that can be read"))?;
    check_schema(&value).map_err(|faults| {
        let detail = format!("the schema of {key} cannot be stored");
        let code = ErrorCode::Refused(Code::InvalidArgument);
        Problem::new(code, "schema_malformed", detail).with_faults(faults).under("/arg_schema")
    })
}
