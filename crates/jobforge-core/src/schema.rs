//! JSON Schema of payloads: which schemas are taken, and whether a payload fits one.
//!
//! Drafts 7 and 2020-12. A schema refers to nothing outside itself, is bounded in size and depth, and its patterns
//! run in linear time, so that neither saving nor validating can be made to fetch, hang or blow up. Problems name
//! the place and the rule, never the value: payloads may hold secrets.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The most problems told of one payload or schema.
pub const MOST_PROBLEMS: usize = 50;
/// The largest schema, in bytes of JSON without spaces; the database counts its own spaces besides.
pub const MAX_SCHEMA: usize = 65_536;
/// The most levels of a schema.
pub const MAX_DEPTH: usize = 64;

/// The largest compiled pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 20;
/// The longest message of one problem, in characters: messages quote schemas and the names of members.
const MESSAGE: usize = 200;

/// One thing that is wrong with a payload or a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The place as a JSON Pointer; empty for the whole.
    pub path: String,
    /// The rule that is broken, without the value that breaks it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the whole" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

/// A schema, compiled.
pub struct Schema(Validator);

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    /// Compiles a schema, or tells what is wrong with it.
    pub fn compile(schema: &Value) -> Result<Schema, Vec<Problem>> {
        let draft = check_form(schema).map_err(|problem| vec![problem])?;
        let meta = match draft {
            Draft::Draft7 => jsonschema::draft7::meta::validator(),
            _ => jsonschema::draft202012::meta::validator(),
        };
        let problems = problems(meta.iter_errors(schema));
        if !problems.is_empty() {
            return Err(problems);
        }
        jsonschema::options()
            .with_draft(draft)
            .offline()
            .with_pattern_options(
                PatternOptions::regex().size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE),
            )
            .build(schema)
            .map(Schema)
            .map_err(|error| vec![problem(&error)])
    }

    /// Everything in which a payload does not fit, up to [`MOST_PROBLEMS`].
    pub fn validate(&self, payload: &Value) -> Result<(), Vec<Problem>> {
        if self.0.is_valid(payload) {
            return Ok(());
        }
        Err(problems(self.0.iter_errors(payload)))
    }

    /// The same for a payload's text.
    pub fn validate_text(&self, payload: &str) -> Result<(), Vec<Problem>> {
        let payload: Value = serde_json::from_str(payload).map_err(|_| {
            // What the parser says may repeat what it stumbled over.
            vec![Problem { path: String::new(), message: "is no JSON that a schema can judge".to_owned() }]
        })?;
        self.validate(&payload)
    }
}

/// Whether a schema may be stored, and all that is wrong with it.
pub fn check_schema(schema: &Value) -> Result<(), Vec<Problem>> {
    Schema::compile(schema).map(drop)
}

/// Schemas compiled once. Whoever owns it decides how long they live.
#[derive(Debug, Default)]
pub struct SchemaCache(HashMap<[u8; 32], Arc<Schema>>);

impl SchemaCache {
    /// The schema of this text; compiled only if it was not before.
    pub fn get(&mut self, text: &str) -> Result<Arc<Schema>, Vec<Problem>> {
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        if let Some(known) = self.0.get(&hash) {
            return Ok(known.clone());
        }
        let refused = |_| vec![Problem { path: String::new(), message: "the schema is no JSON".to_owned() }];
        let schema = Arc::new(Schema::compile(&serde_json::from_str(text).map_err(refused)?)?);
        self.0.insert(hash, schema.clone());
        Ok(schema)
    }

    /// Forgets what nobody else holds.
    pub fn sweep(&mut self) {
        self.0.retain(|_, schema| Arc::strong_count(schema) > 1);
    }
}

/// What the database would refuse as well: its kind, size, depth, draft and references.
fn check_form(schema: &Value) -> Result<Draft, Problem> {
    let whole = |message: &str| Problem { path: String::new(), message: message.to_owned() };
    let members = match schema {
        Value::Bool(_) => return Ok(Draft::Draft202012),
        Value::Object(members) => members,
        _ => return Err(whole("a schema is an object or a boolean")),
    };
    if schema.to_string().len() > MAX_SCHEMA {
        return Err(whole("the schema is larger than 64 KiB"));
    }
    check_references(schema, &mut Vec::new())?;
    let draft = match members.get("$schema") {
        None => Draft::Draft202012,
        Some(name) => match name.as_str().map(|name| name.trim_end_matches('#')) {
            Some("http://json-schema.org/draft-07/schema") => Draft::Draft7,
            Some("https://json-schema.org/draft/2020-12/schema") => Draft::Draft202012,
            _ => return Err(whole("the schema is of another draft than 7 and 2020-12")),
        },
    };
    Ok(draft)
}

/// References lead nowhere but to places in the schema; nothing inside it is a resource of its own.
fn check_references(node: &Value, path: &mut Vec<String>) -> Result<(), Problem> {
    let refused =
        |path: &[String], message: &str| Problem { path: pointer(path), message: message.to_owned() };
    if path.len() > MAX_DEPTH {
        return Err(refused(&[], "the schema is deeper than 64 levels"));
    }
    let children: Vec<(String, &Value)> = match node {
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
        _ => return Ok(()),
    };
    for (key, value) in children {
        let top = path.is_empty();
        let outside = value.as_str().is_some_and(|text| !text.starts_with('#'));
        path.push(key);
        match path.last().map(String::as_str) {
            Some("$ref" | "$dynamicRef") if outside => {
                return Err(refused(path, "leads out of the schema; only what begins with # is followed"));
            }
            Some("$id") if outside && !top => {
                return Err(refused(path, "an $id below the top is not taken"));
            }
            _ => check_references(value, path)?,
        }
        path.pop();
    }
    Ok(())
}

fn pointer(path: &[String]) -> String {
    path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

fn problems<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> Vec<Problem> {
    errors.take(MOST_PROBLEMS).map(|error| problem(&error)).collect()
}

fn problem(error: &ValidationError<'_>) -> Problem {
    let text = match error.kind() {
        // The masked form shows the name's own error unmasked.
        ValidationErrorKind::PropertyNames { error } => format!("a member's name: {}", error.masked()),
        _ => error.masked().to_string(),
    };
    let message = match text.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    Problem { path: error.instance_path().as_str().to_owned(), message }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    fn problems_of(schema: &Value, payload: &Value) -> Vec<String> {
        let told = Schema::compile(schema).unwrap().validate(payload);
        told.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_problems_are_told_with_their_paths() {
        let schema = json!({
            "type": "object", "required": ["to"],
            "properties": {"n": {"type": "integer"}, "list": {"items": {"maxLength": 3}}},
        });
        let found = problems_of(&schema, &json!({"n": "canary-n", "list": ["ok", "canary-l"]}));
        assert_eq!(found.len(), 3, "{found:?}");
        for start in
            ["the whole: \"to\" is a required", "/n: value is not of type", "/list/1: value is longer"]
        {
            assert!(found.iter().any(|text| text.starts_with(start)), "{start}: {found:?}");
        }
    }

    #[test]
    fn drafts_are_told_apart() {
        // Draft 7 has no prefixItems: what 2020-12 refuses it takes.
        let rules = json!({"prefixItems": [{"type": "string"}]});
        assert_eq!(problems_of(&rules, &json!([1])).len(), 1);
        let mut seven = rules;
        seven["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        assert_eq!(problems_of(&seven, &json!([1])), Vec::<String>::new());
        seven["items"] = json!([{"type": "string"}]);
        assert_eq!(problems_of(&seven, &json!([1])).len(), 1);
        for other in ["http://json-schema.org/draft-04/schema#", "http://example.com/own"] {
            assert!(check_schema(&json!({"$schema": other})).is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        let deep = |levels: usize| {
            let mut schema = json!({});
            for _ in 0..levels {
                schema = json!({"not": schema});
            }
            schema
        };
        check_schema(&deep(60)).unwrap();
        for (bad, why) in [
            (json!([]), "an object or a boolean"),
            (json!(null), "an object or a boolean"),
            (json!({"description": "x".repeat(MAX_SCHEMA)}), "larger than 64 KiB"),
            (deep(70), "deeper than 64"),
            (json!({"type": "strong"}), "not valid under any"),
            (json!({"pattern": "("}), ""),
            (json!({"pattern": "(?=a)"}), ""),
            (json!({"$ref": "http://127.0.0.1:1/x"}), "leads out"),
            (json!({"items": {"$ref": "file:///etc/passwd"}}), "leads out"),
            (json!({"$ref": "other.json#/a"}), "leads out"),
            (json!({"$ref": "#/nowhere"}), "does not exist"),
            (json!({"items": {"$id": "http://example.com/x"}}), "below the top"),
        ] {
            let told = check_schema(&bad).unwrap_err();
            assert!(told[0].to_string().contains(why), "{bad}: {told:?}");
        }
    }

    #[test]
    fn a_catastrophic_pattern_is_answered_at_once() {
        let began = Instant::now();
        for pattern in ["^(a+)+$", "^(a|a?)+$", "^(((a+)+)+)+$"] {
            let payload = json!(format!("{}!", "a".repeat(50_000)));
            assert_eq!(problems_of(&json!({"pattern": pattern}), &payload).len(), 1);
        }
        assert!(check_schema(&json!({"pattern": "(((a{1000}){1000}){1000})"})).is_err());
        assert!(began.elapsed() < Duration::from_secs(20), "a backtracking engine needs years");
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        assert_eq!(problems_of(&json!({"$ref": "#"}), &json!({"a": 1})), Vec::<String>::new());
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let found = problems_of(&tree, &json!({"next": {"next": 1}}));
        assert!(found[0].starts_with("/next/next: "), "{found:?}");
    }

    /// Every keyword that can refuse, with a canary in what it refuses.
    #[test]
    fn no_message_repeats_a_value() {
        let canary = "canary-4111111111111111";
        let cases = [
            (json!({"type": "integer"}), json!(canary)),
            (json!({"type": ["integer", "null"]}), json!(canary)),
            (json!({"enum": [1]}), json!(canary)),
            (json!({"const": 1}), json!(canary)),
            (json!({"pattern": "^x$"}), json!(canary)),
            (json!({"maxLength": 1}), json!(canary)),
            (json!({"minLength": 99}), json!(canary)),
            (json!({"not": {"type": "string"}}), json!(canary)),
            (json!({"anyOf": [{"type": "null"}, {"type": "integer"}]}), json!(canary)),
            (json!({"oneOf": [{"type": "null"}, {"type": "integer"}]}), json!(canary)),
            (json!({"oneOf": [true, true]}), json!(canary)),
            (json!({"maxItems": 0}), json!([canary])),
            (json!({"minItems": 3}), json!([canary])),
            (json!({"uniqueItems": true}), json!([canary, canary])),
            (json!({"contains": {"type": "null"}}), json!([canary])),
            (json!({"items": false}), json!([canary])),
            (json!({"unevaluatedItems": false}), json!([canary])),
            (json!({"maxProperties": 0}), json!({"a": canary})),
            (json!({"minProperties": 3}), json!({"a": canary})),
            (json!({"additionalProperties": false}), json!({"a": canary})),
            (json!({"unevaluatedProperties": false}), json!({"a": canary})),
            (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": canary})),
            (json!({"propertyNames": {"maxLength": 1}}), json!({canary: 1})),
            (json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}), json!(canary)),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "contentMediaType": "application/json"}),
                json!(canary),
            ),
            (json!(false), json!(canary)),
        ];
        for (schema, payload) in cases {
            let found = problems_of(&schema, &payload);
            assert!(!found.is_empty(), "{schema} refuses nothing");
            assert!(!found.concat().contains(canary), "{schema}: {found:?}");
        }
        let numbers = [json!({"maximum": 1}), json!({"exclusiveMaximum": 1}), json!({"multipleOf": 1000})];
        for schema in numbers {
            let found = problems_of(&schema, &json!(4_111_111_111_i64));
            assert!(!found.concat().contains("4111111111"), "{schema}: {found:?}");
        }
        let broken = Schema::compile(&json!(true)).unwrap().validate_text("{\"a\": \"canary").unwrap_err();
        assert!(!broken[0].message.contains("canary"));
    }

    #[test]
    fn problems_are_bounded() {
        let many = vec![json!("x"); 500];
        assert_eq!(problems_of(&json!({"items": {"type": "null"}}), &json!(many)).len(), MOST_PROBLEMS);
        let long: serde_json::Map<String, Value> =
            (0..500).map(|n| (format!("member-{n}"), json!(1))).collect();
        let found = problems_of(&json!({"additionalProperties": false}), &Value::Object(long));
        assert!(found.concat().len() < 2 * MESSAGE, "{found:?}");
    }

    #[test]
    fn a_schema_is_compiled_once() {
        let mut cache = SchemaCache::default();
        let first = cache.get("{\"type\": \"object\"}").unwrap();
        assert!(Arc::ptr_eq(&first, &cache.get("{\"type\": \"object\"}").unwrap()));
        assert!(cache.get("{").is_err());
        cache.sweep();
        assert_eq!(cache.0.len(), 1);
        drop(first);
        cache.sweep();
        assert_eq!(cache.0.len(), 0);
    }
}
