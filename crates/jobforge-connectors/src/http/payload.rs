//! What a job of `connector.http.request` is given.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use super::verdict::StatusSet;

/// The payload; `request.schema.json` tells what each member means, and checks it before.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpRequest {
    pub(super) url: String,
    pub(super) connector: Option<String>,
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    query: BTreeMap<String, Value>,
    pub(super) body: Option<String>,
    #[serde(default, deserialize_with = "even_null")]
    pub(super) json: Option<Box<RawValue>>,
    #[serde(default = "timeout")]
    pub(super) timeout_seconds: u32,
    #[serde(default = "success")]
    pub(super) expect: StatusSet,
    #[serde(default)]
    pub(super) permanent: StatusSet,
    #[serde(default)]
    pub(super) retryable: StatusSet,
    #[serde(default = "capture")]
    pub(super) capture_bytes: usize,
    #[serde(default = "follow")]
    pub(super) follow_redirects: bool,
}

impl HttpRequest {
    /// Adds the query's pairs, escaped.
    pub(super) fn add_query(&self, url: &mut Url) {
        if self.query.is_empty() {
            return;
        }
        let mut pairs = url.query_pairs_mut();
        for (name, value) in &self.query {
            match value {
                Value::Array(values) => pairs.extend_pairs(values.iter().map(|value| (name, text(value)))),
                value => pairs.append_pair(name, &text(value)),
            };
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `null` is a body like any other.
fn even_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

fn timeout() -> u32 {
    30
}

fn success() -> StatusSet {
    StatusSet::of_class(2)
}

fn capture() -> usize {
    64 * 1024
}

fn follow() -> bool {
    true
}
