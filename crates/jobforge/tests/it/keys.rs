//! `jobforge keys`: made, listed, revoked; never wider than asked for.

use jobforge_testkit::{APP, OPERATOR, TENANT_A, TENANT_B, TestDb};
use serde_json::{Value, json};

use crate::{Cli, Ran};

#[tokio::test]
async fn a_key_is_printed_once_listed_without_its_secret_and_revoked_for_good() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let made = cli.run(&["keys", "create", "producer", "--name", "shop", "--for", "1h"]);
    assert_eq!(made.code, 0, "{made:?}");
    let key = made.stdout.trim();
    let (id, secret) = key.strip_prefix("jf_").unwrap().split_once('_').unwrap();
    assert!(!made.stderr.contains(secret) && made.stderr.contains("shown this once"), "{made:?}");

    let listed = cli.run(&["keys", "list", "--json"]);
    assert!(!listed.stdout.contains(secret), "{listed:?}");
    let listed = &listed.json()["keys"][0];
    assert_eq!(
        (&listed["id"], &listed["role"], &listed["name"]),
        (&json!(id), &json!("producer"), &json!("shop"))
    );
    assert_eq!((&listed["tenant_id"], &listed["revoked_at"]), (&json!(TENANT_A), &Value::Null));
    assert!(listed["expires_at"].is_string() && listed["created_by"].as_str().unwrap().contains('@'));

    assert_eq!(cli.run(&["keys", "revoke", id]).stdout, format!("key {id} is revoked\n"));
    assert_eq!(cli.run(&["keys", "revoke", id, "--json"]).json()["revoked"], false);
    assert!(cli.run(&["keys", "list"]).stdout.contains("shop"), "a revoked key stays in the list");
    assert!(cli.run(&["keys", "list", "--json"]).json()["keys"][0]["revoked_at"].is_string());
}

#[tokio::test]
async fn a_key_is_of_the_tenant_that_was_named_or_of_all() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let about = |args: &[&str]| cli.run(args).json()["about"].clone();
    let b = TENANT_B.to_string();
    let viewer = about(&["keys", "create", "tenant_viewer", "--tenant", &b, "--json"]);
    assert_eq!(viewer["tenant_id"], b);
    assert_eq!(
        about(&["keys", "create", "worker", "--json"])["tenant_id"],
        json!(TENANT_A),
        "named, so bound"
    );

    let nobodys = |args: &[&str]| {
        let mut command = cli.command();
        Ran::of(command.args(args).env_remove("JOBFORGE_TENANT").output().unwrap())
    };
    let all = nobodys(&["keys", "create", "worker", "--json"]).json();
    assert_eq!((&all["about"]["role"], &all["about"]["tenant_id"]), (&json!("worker"), &Value::Null));
    assert_eq!(nobodys(&["keys", "create", "super_admin", "--json"]).json()["about"]["role"], "super_admin");
    assert_eq!(nobodys(&["keys", "list", "--json"]).json()["keys"].as_array().unwrap().len(), 4);
    assert_eq!(
        cli.run(&["keys", "list", "--json"]).json()["keys"].as_array().unwrap().len(),
        1,
        "of A alone"
    );
    let page = nobodys(&["keys", "list", "--limit", "3", "--json"]).json();
    let next = page["next"].as_str().unwrap();
    let rest = nobodys(&["keys", "list", "--after", next, "--json"]).json();
    assert_eq!((rest["keys"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
}

#[tokio::test]
async fn bad_keys_are_refused_and_nothing_is_made() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let wider = cli.run(&["keys", "create", "super_admin"]);
    assert_eq!(wider.code, 2, "{wider:?}");
    assert_eq!(cli.run(&["keys", "create", "emperor"]).code, 2);
    let mut command = cli.command();
    let nobodys =
        command.args(["keys", "create", "producer"]).env_remove("JOBFORGE_TENANT").output().unwrap();
    assert_eq!(nobodys.status.code(), Some(2));
    cli.run(&["keys", "create", "producer", "--until", "2020-01-01T00:00:00Z"]).refused("JF001");
    cli.run(&["keys", "create", "producer", "--tenant", "00000000-0000-4000-8000-0000000000ff"])
        .refused("JF007");
    cli.run(&["keys", "revoke", "000000000000"]).refused("JF007");
    let app = Cli::new(&db, APP).run(&["keys", "create", "producer"]);
    assert!(app.code == 1 && app.stderr.contains("jf_operator"), "{app:?}");
    assert_eq!(cli.run(&["keys", "list", "--json"]).json()["keys"], json!([]));
}

#[tokio::test]
async fn a_whole_key_is_revoked_by_its_id_and_its_secret_is_never_shown_again() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, OPERATOR);
    let made = cli.run(&["keys", "create", "producer"]);
    let key = made.stdout.trim();
    let (id, secret) = key.strip_prefix("jf_").unwrap().split_once('_').unwrap();
    // A slip of the hand must not print it either.
    let dashed = key.replace('_', "-");
    for slip in
        [&key[..key.len() - 1], &key[3..], secret, &secret[1..], &format!("{id}{secret}"), &dashed, ""]
    {
        let slipped = cli.run(&["keys", "revoke", "--", slip]);
        assert_eq!((slipped.code, slipped.stdout.as_str()), (2, ""), "{slipped:?}");
        assert!(!slipped.stderr.contains(&secret[1..secret.len() - 1]), "{slipped:?}");
    }
    let revoked = cli.run(&["keys", "revoke", key]);
    assert_eq!(revoked.stdout, format!("key {id} is revoked\n"), "{revoked:?}");
    assert_eq!(cli.run(&["keys", "revoke", id, "--json"]).json()["revoked"], false);
}

#[tokio::test]
async fn a_tenant_that_a_key_cannot_have_is_named_as_it_was_given() {
    let db = TestDb::new().await;
    let wider = Cli::new(&db, OPERATOR).run(&["keys", "create", "super_admin"]);
    assert!(wider.stderr.contains(&format!("one is set: {TENANT_A}")), "{wider:?}");
}
