//! A tenant's config on its way to the job: sealed or referred to, opened in its place alone, told nowhere.

use std::collections::BTreeMap;

use jobforge_connectors::configs::{Sealed, SecretPlace, reseal};
use jobforge_core::{ConnectorChange, StoredSecret, rpc};
use jobforge_testkit::{NOOP, TENANT_A, TENANT_B};
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Story, seal_keys};

const K1: &str = "k1:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const K2: &str = "k2:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
/// Another key under the id of the first.
const K1_WRONG: &str = "k1:AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=";

fn env(name: &str) -> StoredSecret {
    StoredSecret::Env(name.to_owned())
}

fn sealed(keys: &str, tenant: Uuid, config: &str, secret: &str, value: &str) -> StoredSecret {
    let place = SecretPlace { tenant, config, secret };
    let Sealed { key_id, bytes } = seal_keys(keys).seal(place, &SecretString::from(value)).unwrap();
    StoredSecret::Sealed { key_id, bytes }
}

async fn set(story: &Story, tenant: Uuid, name: &str, secrets: &[(&str, Option<StoredSecret>)]) {
    let secrets: BTreeMap<_, _> =
        secrets.iter().map(|(name, secret)| ((*name).to_owned(), secret.clone())).collect();
    let settings = serde_json::value::to_raw_value(&json!({ "host": "mail.example" })).unwrap();
    let change =
        ConnectorChange { name: name.to_owned(), settings: Some(settings), secrets, updated_by: None };
    rpc::upsert_connector_config(&story.app, tenant, &change).await.unwrap();
}

/// Runs a job that asks for this config.
async fn ask(story: &Story, name: &str) -> (String, Value) {
    story.run(NOOP, &json!(name)).await
}

#[tokio::test]
async fn a_job_gets_its_tenants_settings_and_secrets_and_nothing_else_tells_them() {
    let story = Story::begin().await;
    let worker = story.work(K1).await;
    let token = sealed(K1, TENANT_A, "mail", "token", "canary-of-the-token");
    set(&story, TENANT_A, "mail", &[("token", Some(token)), ("user", Some(env("JOBFORGE_SECRET_USER")))])
        .await;
    set(&story, TENANT_B, "only_b", &[]).await;

    let (status, found) = ask(&story, "mail").await;
    let wanted = json!({ "settings": { "host": "mail.example" },
        "secrets": { "token": "canary-of-the-token".len(), "user": "canary-of-JOBFORGE_SECRET_USER".len() } });
    assert_eq!((status.as_str(), found), ("succeeded", wanted));
    assert_eq!(ask(&story, "only_b").await.1, "no such config", "another tenant's");

    let told = rpc::get_connector_config(&story.app, TENANT_A, "mail").await.unwrap();
    let listed = rpc::list_connector_configs(&story.app, TENANT_A, 10, None).await.unwrap();
    worker.shutdown().await;
    let dump = story.dump().await;
    assert!(
        dump.contains("mail.example") && dump.contains("found Settings"),
        "the dump has rows and the log line"
    );
    for (where_told, text) in [
        ("the config", format!("{told:?} {}", serde_json::to_string(&told).unwrap())),
        ("the list", serde_json::to_string(&listed).unwrap()),
        ("the tables", dump),
        ("the log", story.logged.text()),
    ] {
        assert!(!text.contains("canary"), "{where_told} tells a secret: {text}");
    }
}

#[tokio::test]
async fn secrets_and_settings_are_set_one_by_one() {
    let story = Story::begin().await;
    let secrets = [("a", Some(env("JOBFORGE_SECRET_A"))), ("b", Some(env("JOBFORGE_SECRET_B")))];
    set(&story, TENANT_A, "mail", &secrets).await;
    let other = serde_json::value::to_raw_value(&json!({ "port": 25, "host": null })).unwrap();
    let change = ConnectorChange {
        name: "mail".to_owned(),
        settings: Some(other),
        secrets: BTreeMap::from([("b".to_owned(), None), ("c".to_owned(), Some(env("JOBFORGE_SECRET_C")))]),
        updated_by: Some("ann".to_owned()),
    };
    let set = rpc::upsert_connector_config(&story.app, TENANT_A, &change).await.unwrap();
    let names: Vec<&str> = set.secrets.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(
        (set.settings.get(), names, set.updated_by.as_str()),
        (r#"{"port": 25}"#, vec!["a", "c"], "ann")
    );
    assert!(rpc::delete_connector_config(&story.app, TENANT_A, "mail").await.unwrap());
    assert!(!rpc::delete_connector_config(&story.app, TENANT_A, "mail").await.unwrap());
    assert!(!story.dump().await.contains("JOBFORGE_SECRET_"), "the secrets went with it");
}

/// Whoever can write to the table cannot make one tenant's secret another's.
#[tokio::test]
async fn a_sealed_secret_that_was_moved_does_not_open() {
    let story = Story::begin().await;
    let worker = story.work(K1).await;
    let token = sealed(K1, TENANT_B, "mail", "token", "canary");
    set(&story, TENANT_B, "mail", &[("token", Some(token))]).await;
    for name in ["mail", "other", "renamed"] {
        set(&story, TENANT_A, name, &[]).await;
    }
    let admin = story.db.connect_super().await;
    let copy = "insert into jobforge.connector_secrets (tenant_id, config, name, key_id, sealed, updated_at)
        select $1, $2, $3, s.key_id, s.sealed, s.updated_at from jobforge.connector_secrets s where s.tenant_id = $4";
    let own = sealed(K1, TENANT_A, "renamed", "token", "canary");
    admin.execute(copy, &[&TENANT_A, &"mail", &"token", &TENANT_B]).await.unwrap();
    admin.execute(copy, &[&TENANT_A, &"other", &"token", &TENANT_B]).await.unwrap();
    set(&story, TENANT_A, "renamed", &[("token", Some(own))]).await;
    assert_eq!(ask(&story, "renamed").await.0, "succeeded");
    let rename = "update jobforge.connector_secrets set name = 'other' where config = 'renamed'";
    admin.batch_execute(rename).await.unwrap();
    for name in ["mail", "other", "renamed"] {
        let (status, error) = ask(&story, name).await;
        let error = error.as_str().unwrap();
        assert_eq!(status, "failed", "no retry opens it: {error}");
        assert!(error.contains("does not open with the key k1") && error.contains(name), "{error}");
    }
    worker.shutdown().await;
    assert!(!story.dump().await.contains("canary") && !story.logged.text().contains("canary"));
}

#[tokio::test]
async fn a_key_takes_anothers_place_without_a_secret_being_lost() {
    let story = Story::begin().await;
    for (tenant, name) in [(TENANT_A, "mail"), (TENANT_A, "sms"), (TENANT_B, "mail")] {
        let token = sealed(K1, tenant, name, "token", "canary");
        set(&story, tenant, name, &[("token", Some(token)), ("user", Some(env("JOBFORGE_SECRET_USER")))])
            .await;
    }
    let both = format!("{K2},{K1}");

    // A worker without the old key may not be the last word; the error names the key.
    let ahead = story.work(K2).await;
    let (status, error) = ask(&story, "mail").await;
    assert_eq!(status, "dead", "it is worth a retry: {error}");
    assert!(error.as_str().unwrap().contains("the key k1 is not among"), "{error}");
    ahead.shutdown().await;

    let with_both = story.work(&both).await;
    assert_eq!(ask(&story, "mail").await.0, "succeeded");
    with_both.shutdown().await;

    let lacking = reseal(&story.operator, &seal_keys(K2)).await.unwrap();
    assert_eq!((lacking.resealed, lacking.unopened.len()), (0, 3));
    assert!(lacking.unopened.iter().all(|left| left.key_id == "k1"), "{lacking:?}");
    let done = reseal(&story.operator, &seal_keys(&both)).await.unwrap();
    assert_eq!((done.key_id.as_str(), done.resealed, done.unopened.len()), ("k2", 3, 0));
    let again = reseal(&story.operator, &seal_keys(&both)).await.unwrap();
    assert_eq!(again.resealed, 0);

    let with_new = story.work(K2).await;
    assert_eq!(ask(&story, "sms").await.0, "succeeded");
    with_new.shutdown().await;
    assert!(!story.dump().await.contains("canary"));
}

#[tokio::test]
async fn another_key_under_the_same_id_is_told_by_its_id() {
    let story = Story::begin().await;
    let worker = story.work(K1_WRONG).await;
    set(&story, TENANT_A, "mail", &[("token", Some(sealed(K1, TENANT_A, "mail", "token", "canary")))]).await;
    let (status, error) = ask(&story, "mail").await;
    let error = error.as_str().unwrap();
    assert_eq!(status, "failed");
    assert!(
        error.contains("secret token of connector config mail") && error.contains("the key k1"),
        "{error}"
    );
    assert!(!error.contains("AwMD"), "{error}");
    worker.shutdown().await;
}

#[tokio::test]
async fn a_reference_reaches_only_what_the_worker_allows() {
    let story = Story::begin().await;
    let worker = story.work(K1).await;
    for variable in ["DATABASE_URL", "JOBFORGE_SEAL_KEYS", "JOBFORGE_DATABASE_URL", "HOME"] {
        set(&story, TENANT_A, "mail", &[("token", Some(env(variable)))]).await;
        let (status, error) = ask(&story, "mail").await;
        let error = error.as_str().unwrap();
        assert_eq!(status, "failed", "{error}");
        assert!(error.contains(variable) && error.contains("worker.secret_env"), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
    worker.shutdown().await;
}

#[tokio::test]
async fn a_disabled_config_fails_its_jobs_until_it_is_enabled() {
    let story = Story::begin().await;
    let worker = story.work(K1).await;
    set(&story, TENANT_A, "hook", &[]).await;
    for _ in 0..2 {
        assert_eq!(ask(&story, "disable hook").await.0, "succeeded");
    }
    let (status, error) = ask(&story, "disable no_such").await;
    assert!(status == "dead" && error.as_str().unwrap().contains("connector_config_unknown"), "{error}");
    let (status, error) = ask(&story, "hook").await;
    assert_eq!((status.as_str(), error), ("failed", json!("connector config hook is disabled: answers 410")));
    assert!(rpc::enable_connector_config(&story.app, TENANT_A, "hook").await.unwrap());
    assert_eq!(ask(&story, "hook").await.0, "succeeded");
    worker.shutdown().await;
}

/// The handlers' shared connection is made anew when it broke.
#[tokio::test]
async fn configs_are_found_again_after_the_connections_broke() {
    let story = Story::begin().await;
    let worker = story.work(K1).await;
    set(&story, TENANT_A, "mail", &[]).await;
    assert_eq!(ask(&story, "mail").await.0, "succeeded");
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and usename = $1";
    let killed: i64 =
        story.db.connect_super().await.query_one(kill, &[&jobforge_testkit::WORKER]).await.unwrap().get(0);
    assert!(killed > 0);
    // A connection that breaks under a call costs that attempt.
    let mut ends = Vec::new();
    while ends.last().map(String::as_str) != Some("succeeded") && ends.len() < 5 {
        ends.push(ask(&story, "mail").await.0);
    }
    assert_eq!(ends.last().map(String::as_str), Some("succeeded"), "{ends:?}");
    worker.shutdown().await;
}
