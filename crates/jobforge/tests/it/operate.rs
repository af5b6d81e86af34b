//! Operating from the command line: pauses, tenants, definitions.

use jobforge_testkit::{APP, NOOP, OPERATOR, TENANT_A, TestDb};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Cli, Ran};

/// A refusal with this code and reason, told in JSON.
#[track_caller]
fn refused(ran: &Ran, code: &str, reason: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((&told["error"]["code"], &told["error"]["reason"]), (&json!(code), &json!(reason)), "{told}");
}

#[tokio::test]
async fn a_pause_is_made_listed_changed_and_ended() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    assert_eq!(cli.run(&["pauses"]).stdout, "nothing is paused\n");
    let made = cli
        .run(&["pause", "queue", "default", "--reason", "the mail server moves", "--for", "30m", "--json"])
        .json();
    assert_eq!((&made["kind"], &made["name"]), (&json!("queue"), &json!("default")));
    let listed = cli.run(&["pauses", "--json"]).json();
    assert_eq!(listed[0]["reason"], "the mail server moves");
    let author = listed[0]["author"].as_str().unwrap();
    assert!(author.contains('@') && author != OPERATOR, "user@host by default: {author}");
    assert!(listed[0]["until"].is_string());

    cli.run(&["pause", "queue", "default", "--as", "ann", "--json"]).json();
    let changed = cli.run(&["pauses", "--json"]).json();
    assert_eq!((&changed[0]["author"], &changed[0]["until"]), (&json!("ann"), &Value::Null));
    assert_eq!(changed[0]["paused_at"], listed[0]["paused_at"], "its beginning stays");
    cli.run(&["pause", "definition", NOOP, "--until", "2100-01-01T00:00:00Z"]).stdout.find("until").unwrap();
    let words = cli.run(&["pauses"]).stdout;
    for part in ["definition  test.noop", "queue       default", "ann"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let shown = cli.run(&["definitions", "show", NOOP, "--json"]).json();
    assert!(shown["pause"]["until"].is_string());

    let tenant = Uuid::from_u128(0xabc);
    cli.run(&["tenants", "set", &tenant.to_string(), "--json"]).json();
    let shouted = tenant.simple().to_string().to_uppercase();
    assert_eq!(cli.run(&["pause", "tenant", &shouted, "--json"]).json()["name"], tenant.to_string());
    assert_eq!(cli.run(&["resume", "tenant", &shouted, "--json"]).json()["was_paused"], true);

    assert_eq!(cli.run(&["resume", "queue", "default"]).stdout, "queue default goes on\n");
    assert_eq!(cli.run(&["resume", "queue", "default", "--json"]).json()["was_paused"], false);
    assert_eq!(cli.run(&["pauses", "--json"]).json().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn bad_pauses_are_refused_with_their_code() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let unknown = Uuid::now_v7().to_string();
    refused(&cli.run(&["pause", "tenant", &unknown, "--json"]), "JF007", "tenant_unknown");
    refused(&cli.run(&["pause", "definition", "no.such", "--json"]), "JF002", "unknown_definition");
    refused(&cli.run(&["pause", "queue", "a b", "--json"]), "JF001", "queue_malformed");
    refused(&cli.run(&["resume", "queue", "a b", "--json"]), "JF001", "queue_malformed");
    let past = cli.run(&["pause", "queue", "q", "--until", "2020-01-01T00:00:00Z", "--json"]);
    refused(&past, "JF001", "until_in_the_past");
    refused(&cli.run(&["pauses", "--limit", "0", "--json"]), "JF001", "limit_out_of_range");
    assert_eq!(cli.run(&["pause", "worker", "w"]).code, 2);
    let both = cli.run(&["pause", "queue", "q", "--for", "1h", "--until", "2100-01-01T00:00:00Z"]);
    assert_eq!(both.code, 2, "{both:?}");
    let app = Cli::new(&db, APP).run(&["pause", "queue", "q"]);
    assert!(app.code == 1 && app.stderr.contains("operators jf_operator"), "{app:?}");
    assert_eq!(cli.run(&["pauses", "--json"]).json(), json!([]));
}

#[tokio::test]
async fn a_tenant_is_made_limited_listed_and_freed() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let id = TENANT_A.to_string();
    let set = cli
        .run(&[
            "tenants",
            "set",
            &id,
            "--weight",
            "3",
            "--max-pending",
            "1000",
            "--max-in-flight",
            "20",
            "--rate",
            "0.5",
            "--burst",
            "50",
            "--retention",
            "month",
            "--json",
        ])
        .json();
    let limits = ["weight", "max_pending", "max_in_flight", "rate_per_second", "rate_burst", "retention"];
    assert_eq!(
        limits.map(|name| set[name].clone()),
        [json!(3), json!(1000), json!(20), json!(0.5), json!(50), json!("month")]
    );
    assert_eq!(set["name"], "A", "what is not given stays");
    let words = cli.run(&["tenants", "show", &id]).stdout;
    assert!(words.contains("A 11111111") && words.contains("0.5/s, 50 at once"), "{words}");
    let freed = cli.run(&["tenants", "set", &id, "--clear", "max_in_flight,rate", "--json"]).json();
    assert_eq!(limits.map(|name| freed[name].clone())[2..5], [Value::Null, Value::Null, Value::Null]);
    assert_eq!(freed["max_pending"], 1000);

    let new = Uuid::now_v7().to_string();
    assert_eq!(cli.run(&["tenants", "set", &new, "--name", "acme", "--json"]).json()["weight"], 1);
    let nil = Uuid::nil().to_string();
    assert_eq!(cli.run(&["tenants", "show", &nil, "--json"]).json()["name"], "global");
    let first = cli.run(&["tenants", "list", "--limit", "2", "--json"]).json();
    let rest = cli.run(&["tenants", "list", "--after", first["next"].as_str().unwrap(), "--json"]).json();
    assert_eq!(
        (first["tenants"].as_array().unwrap().len(), rest["tenants"].as_array().unwrap().len()),
        (2, 2)
    );
    assert_eq!(rest["next"], Value::Null);
    assert!(cli.run(&["tenants", "list"]).stdout.contains("acme"));

    refused(&cli.run(&["tenants", "show", &Uuid::now_v7().to_string(), "--json"]), "JF007", "tenant_unknown");
    refused(&cli.run(&["tenants", "set", &id, "--weight", "101", "--json"]), "JF001", "tenant_out_of_range");
    refused(&cli.run(&["tenants", "set", &id, "--name", "", "--json"]), "JF001", "name_length");
    assert_eq!(cli.run(&["tenants", "set", &id, "--clear", "name"]).code, 2);
}

#[tokio::test]
async fn a_definition_is_made_limited_listed_and_freed() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let made = cli
        .run(&[
            "definitions",
            "set",
            "mail.send",
            "--queue",
            "mail",
            "--retry-preset",
            "patient",
            "--max-attempts",
            "9",
            "--max-in-flight",
            "10",
            "--max-in-flight-per-key",
            "2",
            "--rate",
            "50",
            "--burst",
            "100",
            "--dead-retention",
            "month",
            "--description",
            "sends a mail",
            "--json",
        ])
        .json();
    let set =
        ["queue", "max_attempts", "max_in_flight", "max_in_flight_per_key", "rate_per_second", "rate_burst"];
    assert_eq!(
        set.map(|name| made[name].clone()),
        [json!("mail"), json!(9), json!(10), json!(2), json!(50.0), json!(100)]
    );
    assert_eq!((&made["dead_retention"], &made["retry_cap_ms"]), (&json!("month"), &json!(1_024_000)));
    let words = cli.run(&["definitions", "show", "mail.send"]).stdout;
    assert!(words.contains("sends a mail") && words.contains("50/s, 100 at once"), "{words}");
    let freed = cli
        .run(&["definitions", "set", "mail.send", "--clear", "rate", "--active", "false", "--json"])
        .json();
    assert_eq!((&freed["rate_per_second"], &freed["is_active"]), (&Value::Null, &json!(false)));
    assert_eq!(freed["max_in_flight"], 10);
    let list = cli.run(&["definitions", "list"]).stdout;
    assert!(list.contains("mail.send") && list.contains("inactive") && list.contains(NOOP), "{list}");
    let page = cli.run(&["definitions", "list", "--limit", "1", "--json"]).json();
    let rest = cli.run(&["definitions", "list", "--after", page["next"].as_str().unwrap(), "--json"]).json();
    assert_eq!(rest["definitions"].as_array().unwrap().len(), 2);

    refused(&cli.run(&["definitions", "show", "no.such", "--json"]), "JF002", "unknown_definition");
    refused(&cli.run(&["definitions", "set", "a b", "--json"]), "JF001", "key_malformed");
    refused(
        &cli.run(&["definitions", "set", NOOP, "--burst", "3", "--json"]),
        "JF001",
        "definition_out_of_range",
    );
    let clear = cli.run(&["definitions", "set", NOOP, "--clear", "max_pending", "--json"]);
    refused(&clear, "JF001", "clear_unknown");
}

#[tokio::test]
async fn help_shows_by_example() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    for (args, example) in [
        (vec!["pause", "--help"], "jobforge pause queue mail"),
        (vec!["resume", "--help"], "jobforge resume queue mail"),
        (vec!["tenants", "set", "--help"], "--clear max_in_flight,rate"),
        (vec!["definitions", "set", "--help"], "jobforge definitions set mail.send"),
        (vec!["doctor", "--help"], "pg_read_all_stats"),
    ] {
        let help = cli.run(&args);
        assert!(help.code == 0 && help.stdout.contains(example), "{args:?}: {help:?}");
    }
}
