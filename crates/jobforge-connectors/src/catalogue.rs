//! The connectors that this crate brings, as the database should know them.

use jobforge_core::Definition;

use crate::{http, qr, report, webhook};

/// A job type that needs no code.
#[derive(Clone, Copy, Debug)]
pub struct Connector {
    /// The type's name.
    pub key: &'static str,
    /// What its jobs do.
    pub description: &'static str,
    /// The JSON Schema of its payloads.
    pub schema: &'static str,
    /// How long one attempt may take: longer than its slowest request.
    pub timeout_seconds: i32,
    /// How often its jobs may fail.
    pub max_attempts: i32,
}

/// All of them.
pub fn connectors() -> [Connector; 4] {
    [
        Connector {
            key: http::KEY,
            description: "Sends an HTTP request; the answer is the result",
            schema: http::schema(),
            timeout_seconds: 330,
            max_attempts: 5,
        },
        Connector {
            key: webhook::KEY,
            description: "Delivers a signed webhook",
            schema: webhook::schema(),
            timeout_seconds: 60,
            // With the standard pauses these are about nine hours.
            max_attempts: 20,
        },
        Connector {
            key: report::TYPE,
            description: "Makes a report in JSON, HTML or CSV of rows given or of the tenant's own jobs",
            schema: report::schema(),
            timeout_seconds: 300,
            max_attempts: 5,
        },
        Connector {
            key: qr::TYPE,
            description: "Makes a QR code of a text, as PNG",
            schema: qr::schema(),
            timeout_seconds: 300,
            max_attempts: 5,
        },
    ]
}

impl Connector {
    /// The definition to install. What an operator changed of it is overwritten.
    pub fn definition(&self) -> Definition {
        Definition {
            description: Some(self.description.to_owned()),
            timeout_seconds: Some(self.timeout_seconds),
            max_attempts: Some(self.max_attempts),
            retry_preset: Some("standard".to_owned()),
            arg_schema: serde_json::from_str(self.schema).ok(),
            ..Definition::new(self.key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_one() {
        for connector in connectors() {
            let schema = serde_json::from_str(connector.schema).unwrap();
            assert!(jobforge_core::schema::check_schema(&schema).is_ok(), "{}", connector.key);
            assert!(connector.definition().arg_schema.is_some(), "{}", connector.key);
        }
    }
}
