//! What definitions say of payloads, as hosts ask for it.

use jobforge_core::rpc::{definition_rules, get_definition, upsert_definition, validate_job};
use jobforge_core::{Clear, Code, Definition, Error, NewJob, Payload};
use jobforge_testkit::{NOOP, OTHER};
use serde_json::json;

use crate::story::Story;

fn schema() -> Payload {
    let schema =
        json!({"required": ["to"], "properties": {"n": {"type": "integer"}, "key": {"writeOnly": true}}});
    serde_json::value::to_raw_value(&schema).unwrap()
}

#[tokio::test]
async fn rules_are_set_asked_for_and_taken_away() {
    let story = Story::begin().await;
    let types = [NOOP.to_owned(), OTHER.to_owned(), "no.such".to_owned()];
    assert!(definition_rules(&story.app, &types).await.unwrap().is_empty());
    let ruled = Definition {
        arg_schema: Some(schema()),
        redact: Some(vec!["/card/number".to_owned()]),
        ..Definition::new(NOOP)
    };
    upsert_definition(&story.operator, &ruled).await.unwrap();
    for client in [&story.app, &story.worker, &story.operator] {
        let rules = definition_rules(client, &types).await.unwrap();
        assert_eq!((rules.len(), rules[0].key.as_str()), (1, NOOP));
        assert_eq!(rules[0].redact, ["/card/number", "/key"]);
        assert!(rules[0].arg_schema.is_some());
    }
    let listed = get_definition(&story.operator, NOOP).await.unwrap().unwrap();
    assert_eq!(
        (listed.redact, listed.write_only),
        (vec!["/card/number".to_owned()], vec!["/key".to_owned()])
    );
    assert!(get_definition(&story.operator, "no.such").await.unwrap().is_none());
    let cleared = Definition { clear: vec![Clear::ArgSchema, Clear::Redact], ..Definition::new(NOOP) };
    upsert_definition(&story.operator, &cleared).await.unwrap();
    assert!(definition_rules(&story.app, &types).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_host_is_told_all_that_is_wrong_with_a_payload() {
    let story = Story::begin().await;
    let bad = NewJob::new(NOOP, &json!({"n": "canary"})).unwrap();
    validate_job(&story.app, &bad).await.unwrap();
    let ruled = Definition { arg_schema: Some(schema()), ..Definition::new(NOOP) };
    upsert_definition(&story.operator, &ruled).await.unwrap();
    let error = validate_job(&story.app, &bad).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Some(Code::PayloadInvalid), Some("payload_invalid")));
    assert!(!error.to_string().contains("canary"), "{error}");
    let Error::Invalid { problems, .. } = error else { panic!("{error}") };
    let mut paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["", "/n"]);
    validate_job(&story.app, &NewJob::new(NOOP, &json!({"n": 1, "to": "x"})).unwrap()).await.unwrap();
    validate_job(&story.app, &NewJob::new(OTHER, &json!(7)).unwrap()).await.unwrap();
}
