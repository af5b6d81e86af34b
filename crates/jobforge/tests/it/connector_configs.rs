//! Connectors from the command line: set up, looked at, sealed anew; and no secret in what any of it prints.

use std::io::Write;
use std::process::Stdio;

use jobforge_core::Definition;
use jobforge_core::rpc::upsert_definition;
use jobforge_testkit::{APP, OPERATOR, TestDb, WORKER};
use serde_json::{Value, json};

use crate::{Cli, Ran, run};

const CANARY: &str = "canary of the token";

impl Cli {
    /// With these keys, and this on stdin.
    fn with(&self, keys: &str, stdin: &str, args: &[&str]) -> Ran {
        let mut command = self.command();
        command.args(args).env("JOBFORGE_SEAL_KEYS", keys).env("JOBFORGE_SECRET_USER", CANARY);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that refuses its arguments does not read.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert!(!format!("{ran:?}").contains("canary"), "a secret is told: {ran:?}");
        ran
    }
}

fn new_key(cli: &Cli) -> (String, String) {
    let made = cli.run(&["connectors", "new-key", "--json"]).json();
    (made["key_id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

/// Everything that is stored of secrets, as text and as bytes.
async fn stored(db: &TestDb) -> String {
    let sql = "select coalesce(string_agg(s::text || encode(coalesce(s.sealed, ''), 'escape'), ' '), '')
               from jobforge.connector_secrets s";
    db.connect_super().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_config_is_set_listed_shown_and_deleted() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    let (key_id, key) = new_key(&cli);
    assert_eq!(cli.run(&["connectors", "list"]).stdout, "no connector configs\n");
    let file = cli.dir.path().join("settings.json");
    std::fs::write(&file, r#"{"host": "smtp.example", "port": 25}"#).unwrap();
    let args = [
        "connectors",
        "set",
        "mail",
        "--settings-file",
        file.to_str().unwrap(),
        "--setting",
        "port=587",
        "--setting",
        "from=ann",
        "--secret",
        "user=env:JOBFORGE_SECRET_USER",
        "--secret-stdin",
        "token",
        "--json",
    ];
    let set = cli.with(&key, &format!("{CANARY}\n"), &args).json();
    assert_eq!(set["settings"], json!({ "host": "smtp.example", "port": 587, "from": "ann" }));
    let secrets = json!([
        { "name": "token", "kind": "sealed", "key_id": key_id },
        { "name": "user", "kind": "env", "key_id": null },
    ]);
    assert_eq!(set["secrets"], secrets);
    assert!(set["updated_by"].as_str().unwrap().contains('@'), "{set}");

    let shown = cli.with(&key, "", &["connectors", "show", "mail", "--json"]).json();
    assert_eq!(shown, set);
    let listed = cli.with(&key, "", &["connectors", "list", "--json"]).json();
    assert_eq!(listed["configs"], json!([set]));
    let words = cli.with(&key, "", &["connectors", "show", "mail"]).stdout;
    assert!(words.contains(&format!("token (sealed with {key_id}), user (environment)")), "{words}");
    let words = cli.with(&key, "", &["connectors", "list"]).stdout;
    assert!(words.contains("mail") && words.contains(&key_id), "{words}");
    let removed = cli.with(
        "",
        "",
        &["connectors", "set", "mail", "--remove-secret", "user", "--setting", "from=null", "--json"],
    );
    assert_eq!(removed.json()["settings"], json!({ "host": "smtp.example", "port": 587 }));
    assert_eq!(removed.json()["secrets"].as_array().unwrap().len(), 1);
    assert!(!stored(&db).await.contains("canary"));

    assert_eq!(cli.run(&["connectors", "enable", "mail", "--json"]).json()["enabled"], false);
    assert_eq!(cli.run(&["connectors", "delete", "mail", "--json"]).json()["deleted"], true);
    assert_eq!(cli.run(&["connectors", "delete", "mail"]).stdout, "there is no connector config mail\n");
    cli.run(&["connectors", "show", "mail"]).refused("JF007");
    assert_eq!(stored(&db).await, "");
}

#[tokio::test]
async fn what_cannot_be_kept_secret_is_refused_and_nothing_is_set() {
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    let (_, key) = new_key(&cli);
    let without = cli.with("", CANARY, &["connectors", "set", "mail", "--secret-stdin", "token"]);
    assert_eq!(without.code, 1);
    assert!(without.stderr.contains("new-key") && without.stderr.contains("env:NAME"), "{without:?}");
    for given in ["token=canary", "token", "env:JOBFORGE_SECRET_USER", "token=ENV:canary"] {
        let told = cli.with(&key, "", &["connectors", "set", "mail", "--secret", given]);
        assert!(told.code == 2 && told.stderr.contains("--secret-stdin"), "{told:?}");
    }
    let long = "canary".repeat(2000);
    for (stdin, told) in [("", "not 0"), (long.as_str(), "1 to 8192 bytes")] {
        let refused = cli.with(&key, stdin, &["connectors", "set", "mail", "--secret-stdin", "token"]);
        assert!(refused.code == 1 && refused.stderr.contains(told), "{refused:?}");
    }
    for keys in ["canary", "k1:canary", &format!("{key},{key}")] {
        let refused = cli.with(keys, CANARY, &["connectors", "set", "mail", "--secret-stdin", "token"]);
        assert!(refused.code != 0 && refused.stderr.contains("JOBFORGE_SEAL_KEYS"), "{refused:?}");
    }
    let settings = cli.with(&key, "", &["connectors", "set", "mail", "--setting", "port"]);
    assert!(settings.code == 2 && settings.stderr.contains("NAME=VALUE"), "{settings:?}");
    cli.with(&key, "", &["connectors", "set", "no name"]).refused("JF001");
    assert_eq!(cli.run(&["connectors", "list", "--json"]).json()["configs"], json!([]));
    assert_eq!(stored(&db).await, "");
}

#[tokio::test]
async fn a_key_is_replaced_by_another() {
    let db = TestDb::new().await;
    let (cli, operator) = (Cli::new(&db, APP), Cli::new(&db, OPERATOR));
    let ((old_id, old), (new_id, new)) = (new_key(&cli), new_key(&cli));
    cli.with(&old, CANARY, &["connectors", "set", "mail", "--secret-stdin", "token"])
        .stdout
        .find("mail")
        .unwrap();

    let lacking = operator.with(&new, "", &["connectors", "reseal", "--json"]);
    assert_eq!(
        (lacking.code, lacking.parsed()["unopened"][0]["key_id"].as_str()),
        (1, Some(old_id.as_str()))
    );
    let both = format!("{new},{old}");
    let done = operator.with(&both, "", &["connectors", "reseal", "--json"]).json();
    assert_eq!((&done["key_id"], &done["resealed"]), (&json!(new_id), &json!(1)));
    let words = operator.with(&both, "", &["connectors", "reseal"]).stdout;
    assert_eq!(words, format!("0 secrets are sealed anew with {new_id}\n"));
    let shown = cli.run(&["connectors", "show", "mail", "--json"]).json();
    assert_eq!(shown["secrets"][0]["key_id"], json!(new_id));
    let without = operator.with("", "", &["connectors", "reseal"]);
    assert!(without.code == 1 && without.stderr.contains("new-key"), "{without:?}");
    let denied = cli.with(&both, "", &["connectors", "reseal"]);
    assert!(denied.code == 1 && denied.stderr.contains("jf_operator"), "{denied:?}");
}

#[tokio::test]
async fn keys_are_printed_by_new_key_alone_and_secrets_are_no_settings() {
    let dir = tempfile::tempdir().unwrap();
    let words = run(dir.path(), &["connectors", "new-key"]).stdout;
    assert!(words.starts_with('k') && words.trim_end().ends_with('=') && words.contains(':'), "{words}");
    let db = TestDb::new().await;
    let cli = Cli::new(&db, APP);
    let shown = cli.with("k1:canary", "", &["config", "show"]);
    assert!(shown.code == 0 && shown.stdout.contains("JOBFORGE_SECRET_*"), "{shown:?}");
}

#[tokio::test]
async fn a_worker_makes_reports_and_qr_codes() {
    let db = TestDb::new().await;
    let operator = db.as_operator().await;
    let (cli, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let jobs = [
        ("connector.qr.generate", r#"{"text": "hello"}"#, "width"),
        ("connector.report.generate", r#"{"format": "csv", "columns": ["a"], "rows": [[1]]}"#, "body"),
    ];
    for (job_type, payload, has) in jobs {
        upsert_definition(&operator, &Definition::new(job_type)).await.unwrap();
        let made = cli.run(&["enqueue", job_type, "--payload", payload, "--json"]).json();
        let id = made["id"].as_str().or_else(|| made["jobs"][0]["id"].as_str()).unwrap().to_owned();
        assert_eq!(worker.run(&["tick", "--json"]).json()["completed"], 1);
        let shown = cli.run(&["jobs", "show", &id, "--json"]).json();
        let job = shown.get("job").unwrap_or(&shown);
        assert!(!job["result"][has].is_null(), "{shown}");
        assert_eq!(job["status"], Value::from("succeeded"));
    }
}
