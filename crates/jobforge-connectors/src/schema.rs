//! Payloads against the schemas that are committed beside their connectors.

use jobforge_core::Payload;
use jobforge_worker::HandlerError;
use jsonschema::Validator;
use serde::de::DeserializeOwned;

/// The most problems of one payload that are told.
const MAX_PROBLEMS: usize = 10;

/// A connector's schema, ready to judge payloads.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Option<Validator>,
}

impl Schema {
    /// Compiles a schema. The texts are this crate's own, and a test compiles each; one that does not compile
    /// refuses every payload.
    pub(crate) fn new(text: &str) -> Schema {
        let schema = serde_json::from_str(text).ok();
        Schema { validator: schema.and_then(|schema| jsonschema::validator_for(&schema).ok()) }
    }

    /// The payload, typed. What is wrong with it is told by its places, never by its values.
    pub(crate) fn decode<T: DeserializeOwned>(&self, payload: &Payload) -> Result<T, HandlerError> {
        let misfit = |what: String| HandlerError::new(format!("the payload is refused: {what}")).permanent();
        let value = serde_json::from_str(payload.get()).map_err(|_| misfit("it is no JSON".to_owned()))?;
        let validator = self.validator.as_ref().ok_or_else(|| misfit("its schema is broken".to_owned()))?;
        let problems = validator.iter_errors(&value).take(MAX_PROBLEMS);
        let problems: Vec<String> = problems
            .map(|error| format!("{}: {}", place(error.instance_path().as_str()), error.masked()))
            .collect();
        if !problems.is_empty() {
            return Err(misfit(problems.join("; ")));
        }
        // The schema has let it pass, so this fails only where the two differ; its message may hold values.
        serde_json::from_str(payload.get()).map_err(|_| misfit("it does not fit the connector".to_owned()))
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}
