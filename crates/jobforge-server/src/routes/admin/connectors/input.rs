//! A connector config as it is given, and how its secrets are sealed before they go anywhere.

use std::collections::BTreeMap;
use std::fmt;

use jobforge_core::{Code, ConnectorChange, Payload, StoredSecret};
use secrecy::SecretString;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::problem::{ErrorCode, Problem};
use crate::sealer::{SealError, SealPlace, Sealer};

/// What is to be set; what is not named stays, what is null goes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectorInput {
    /// Settings, one by one.
    #[schema(value_type = Option<serde_json::Value>, example = json!({"base_url": "https://api.example.com"}))]
    settings: Option<Payload>,
    /// Secrets, by name: `{"env": NAME}` stands in the worker's environment, `{"value": SECRET}` is sealed by the
    /// server.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, SecretForm>)]
    secrets: BTreeMap<String, Option<SecretInput>>,
}

/// How a secret is given: one of the two.
#[derive(ToSchema)]
#[schema(as = Secret)]
#[expect(dead_code, reason = "it describes what SecretInput reads")]
pub(crate) struct SecretForm {
    /// A variable of the worker's environment.
    #[schema(example = "CRM_TOKEN")]
    env: Option<String>,
    /// The secret itself, 1 to 8192 bytes.
    #[schema(write_only)]
    value: Option<String>,
}

/// A secret as it comes.
enum SecretInput {
    Env(String),
    Clear(SecretString),
}

/// Without the value.
impl fmt::Debug for SecretInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretInput::Env(name) => write!(f, "Env({name})"),
            SecretInput::Clear(_) => f.write_str("Clear(***)"),
        }
    }
}

/// By hand: a derived one would repeat in its message what it stumbles over, which may be the secret.
impl<'de> Deserialize<'de> for SecretInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SecretInput, D::Error> {
        let form = || D::Error::custom("a secret is {\"env\": NAME}, {\"value\": SECRET} or null");
        let Ok(Value::Object(members)) = Value::deserialize(deserializer) else { return Err(form()) };
        let mut members = members.into_iter();
        match (members.next(), members.next()) {
            (Some((kind, Value::String(name))), None) if kind == "env" => Ok(SecretInput::Env(name)),
            (Some((kind, Value::String(secret))), None) if kind == "value" => {
                Ok(SecretInput::Clear(SecretString::from(secret)))
            }
            _ => Err(form()),
        }
    }
}

impl ConnectorInput {
    /// The change as the database takes it: nothing in it is secret any more.
    pub(super) fn change(
        self,
        tenant: Uuid,
        name: String,
        author: String,
        sealer: Option<&dyn Sealer>,
    ) -> Result<ConnectorChange, Problem> {
        let mut secrets = BTreeMap::new();
        for (secret, given) in self.secrets {
            let stored = match given {
                None => None,
                Some(SecretInput::Env(variable)) => Some(StoredSecret::Env(variable)),
                Some(SecretInput::Clear(value)) => {
                    let place = SealPlace { tenant, config: &name, name: &secret };
                    Some(seal(sealer, place, &value)?)
                }
            };
            secrets.insert(secret, stored);
        }
        Ok(ConnectorChange { name, settings: self.settings, secrets, updated_by: Some(author) })
    }
}

fn seal(
    sealer: Option<&dyn Sealer>,
    place: SealPlace<'_>,
    value: &SecretString,
) -> Result<StoredSecret, Problem> {
    let none = || SealError::Unavailable("this server has no key to seal secrets with".to_owned());
    let sealed = sealer.ok_or_else(none).and_then(|sealer| sealer.seal(place, value));
    sealed.map_err(|error| {
        let (code, reason) = match &error {
            SealError::Unfit(_) => (Code::InvalidArgument, "secret_malformed"),
            SealError::Unavailable(_) => (Code::WrongState, "sealing_unavailable"),
        };
        let (config, name) = (place.config, place.name);
        let detail = format!("secret {name} of connector config {config} was not sealed: {error}; {{\"env\": NAME}} works always");
        Problem::new(ErrorCode::Refused(code), reason, detail)
    })
}
