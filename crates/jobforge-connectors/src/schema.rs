//! Payloads against the schemas that are committed beside their connectors.

use jobforge_core::Payload;
use jobforge_core::schema::{Problem, Schema as Compiled};
use jobforge_worker::HandlerError;
use serde::de::DeserializeOwned;

/// The most problems of one payload that are told.
const MAX_PROBLEMS: usize = 10;

/// A connector's schema, ready to judge payloads: a job may come in before its definition has the schema.
#[derive(Debug)]
pub(crate) struct Schema {
    compiled: Option<Compiled>,
}

impl Schema {
    /// Compiles a schema. The texts are this crate's own, and a test compiles each; one that does not compile
    /// refuses every payload.
    pub(crate) fn new(text: &str) -> Schema {
        let schema = serde_json::from_str(text).ok();
        Schema { compiled: schema.and_then(|schema| Compiled::compile(&schema).ok()) }
    }

    /// The payload, typed. What is wrong with it is told by its places, never by its values.
    pub(crate) fn decode<T: DeserializeOwned>(&self, payload: &Payload) -> Result<T, HandlerError> {
        let misfit = |what: String| HandlerError::new(format!("the payload is refused: {what}")).permanent();
        let value = serde_json::from_str(payload.get()).map_err(|_| misfit("it is no JSON".to_owned()))?;
        let compiled = self.compiled.as_ref().ok_or_else(|| misfit("its schema is broken".to_owned()))?;
        compiled.validate(&value).map_err(|problems| {
            let told: Vec<String> = problems.iter().take(MAX_PROBLEMS).map(Problem::to_string).collect();
            misfit(told.join("; "))
        })?;
        // The schema has let it pass, so this fails only where the two differ; its message may hold values.
        serde_json::from_str(payload.get()).map_err(|_| misfit("it does not fit the connector".to_owned()))
    }
}
