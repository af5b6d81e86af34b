//! Schemas and redaction from the command line.

use std::fs;

use jobforge_testkit::{APP, NOOP, OPERATOR, TestDb, WORKER};
use serde_json::{Value, json};

use crate::{Cli, Ran};

/// A refusal as JSON tells it.
#[track_caller]
fn told(ran: &Ran) -> Value {
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    serde_json::from_str::<Value>(&ran.stderr).unwrap()["error"].clone()
}

fn write(cli: &Cli, schema: &Value) -> String {
    let file = cli.dir.path().join("schema.json");
    fs::write(&file, schema.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_schema_is_set_shown_and_taken_away() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let file = write(&cli, &json!({"type": "object", "properties": {"token": {"writeOnly": true}}}));
    let set =
        ["definitions", "set", NOOP, "--schema", &file, "--redact", "/card/number,/items/*/secret", "--json"];
    let made = cli.run(&set).json();
    assert_eq!(made["arg_schema"]["type"], "object");
    assert_eq!(
        (&made["redact"], &made["write_only"]),
        (&json!(["/card/number", "/items/*/secret"]), &json!(["/token"]))
    );
    let words = cli.run(&["definitions", "show", NOOP]).stdout;
    assert!(words.contains("/card/number, /items/*/secret, /token"), "{words}");
    let cleared = cli.run(&["definitions", "set", NOOP, "--clear", "arg_schema,redact", "--json"]).json();
    assert_eq!(
        (&cleared["arg_schema"], &cleared["redact"], &cleared["write_only"]),
        (&Value::Null, &json!([]), &json!([]))
    );
}

#[tokio::test]
async fn a_bad_schema_is_refused_before_it_is_stored() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    for (schema, part) in [
        (json!({"properties": {"a": {"type": "strong"}}}), "/properties/a/type: "),
        (json!({"items": {"$ref": "http://127.0.0.1:1/x"}}), "/items/$ref: leads out"),
        (json!({"pattern": "(?<=a)b"}), "pattern"),
        (json!(7), "an object or a boolean"),
    ] {
        let file = write(&cli, &schema);
        let error = told(&cli.run(&["definitions", "set", NOOP, "--schema", &file, "--json"]));
        assert_eq!(
            (&error["code"], &error["reason"]),
            (&json!("JF001"), &json!("schema_malformed")),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{part}: {error}");
    }
    let error = told(&cli.run(&["definitions", "set", NOOP, "--redact", "$.card", "--json"]));
    assert_eq!(error["reason"], "redact_malformed");
    assert_eq!(cli.run(&["definitions", "set", NOOP, "--schema", "no/such/file"]).code, 1);
    assert_eq!(cli.run(&["definitions", "show", NOOP, "--json"]).json()["arg_schema"], Value::Null);
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_told_in_full_and_not_enqueued() {
    let db = TestDb::new().await;
    let (operator, app) = (Cli::new(&db, OPERATOR), Cli::new(&db, APP));
    let schema = json!({"type": "object", "required": ["to"], "properties": {"n": {"type": "integer"}, "key": {"writeOnly": true}}});
    let file = write(&operator, &schema);
    operator.run(&["definitions", "set", NOOP, "--schema", &file, "--json"]).json();
    for count in ["1", "3"] {
        let error =
            told(&app.run(&["enqueue", NOOP, "--payload", r#"{"n": "canary"}"#, "--count", count, "--json"]));
        assert_eq!(
            (&error["code"], &error["reason"]),
            (&json!("JF003"), &json!("payload_invalid")),
            "{error}"
        );
        let mut paths: Vec<&str> =
            error["problems"].as_array().unwrap().iter().map(|p| p["path"].as_str().unwrap()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["", "/n"], "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    app.run(&["enqueue", NOOP, "--payload", r#"{"n": "canary"}"#]).refused("JF003");
    assert_eq!(app.run(&["jobs", "list", "--json"]).json()["jobs"], json!([]));
    let made = app.run(&["enqueue", NOOP, "--payload", r#"{"to": "ann", "key": "canary"}"#, "--json"]).json();
    let shown = app.run(&["jobs", "show", made["id"].as_str().unwrap(), "--json"]);
    assert_eq!(shown.json()["job"]["payload"], json!({"to": "ann", "key": "[redacted]"}));
    assert!(!shown.stdout.contains("canary"), "{shown:?}");
}

#[tokio::test]
async fn no_log_line_has_the_databases_password() {
    let db = TestDb::new().await;
    let mut cli = Cli::new(&db, WORKER);
    cli.url = db.url_as(WORKER, Some("canary-password"));
    for format in ["json", "human"] {
        let mut command = cli.command();
        command.args(["work"]).env("JOBFORGE_LOG__FILTER", "trace").env("JOBFORGE_LOG__FORMAT", format);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(!ran.stderr.contains("canary") && !ran.stdout.contains("canary"), "{ran:?}");
    }
}
