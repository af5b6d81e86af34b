//! A primary that is demoted and goes on answering.

use axum::Router;
use jobforge_core::rpc::{bind_login, create_api_key, upsert_definition, upsert_tenant};
use jobforge_core::{Definition, KeyScope, NewKey, Role, Tenant, migrate};
use jobforge_server::auth::key::KeyText;
use jobforge_server::{Server, ServerConfig};
use jobforge_testkit::{APP, NOOP, OPERATOR, PrivateCluster, TENANT_A, connect};
use serde_json::json;
use tokio_postgres::Client;

use crate::auth_support::{Ask, FOR_EVER, until};

/// An installation on a server of its own; the text of a key of tenant A's administrator.
async fn install(admin: &Client, operator: &str) -> String {
    for (login, role) in [(APP, "jf_tenant"), (OPERATOR, "jf_operator")] {
        let sql = format!("create role {login} login; grant {role} to {login}");
        admin.batch_execute(&sql).await.unwrap();
        bind_login(admin, login, None).await.unwrap();
    }
    upsert_tenant(admin, &Tenant::named(TENANT_A, "A")).await.unwrap();
    upsert_definition(admin, &Definition::new(NOOP)).await.unwrap();
    let made = KeyText::generate();
    let key = NewKey {
        id: made.id.clone(),
        secret_sha256: made.secret_sha256,
        scope: KeyScope::of(Role::TenantAdmin, Some(TENANT_A)).unwrap(),
        name: "admin".to_owned(),
        expires_at: None,
        author: None,
        only_first: false,
    };
    create_api_key(&connect(operator).await, &key).await.unwrap();
    made.expose().to_owned()
}

async fn enqueue(router: &Router, key: &str) -> u16 {
    Ask::post("/jobs", &json!({ "type": NOOP })).bearer(key).of(router).await.status.as_u16()
}

async fn list(router: &Router, key: &str) -> u16 {
    Ask::get("/jobs").bearer(key).of(router).await.status.as_u16()
}

#[tokio::test]
async fn readers_leave_it_too_and_come_back_when_it_takes_writes() {
    let cluster = PrivateCluster::start().await;
    let url = cluster.super_url("postgres");
    migrate::up(&url).await.unwrap();
    let admin = connect(&url).await;
    let at = |login: &str| cluster.address().url_as(login, None, "postgres");
    let key = install(&admin, &at(OPERATOR)).await;
    // Who calls is remembered: it is not the look for the key that fails.
    let config = ServerConfig { credential_memory: FOR_EVER, ..ServerConfig::new(at(APP), at(OPERATOR)) };
    let router = Server::new(config).await.unwrap().router();
    assert_eq!((enqueue(&router, &key).await, list(&router, &key).await), (201, 200));
    // Several connections: the one that is refused a write is not the only one.
    let left = "select count(*) from pg_stat_activity where usename = $1";
    let connected = async || admin.query_one(left, &[&APP]).await.unwrap().get::<_, i64>(0);
    let readers = (0..4).map(|_| list(&router, &key));
    assert_eq!(futures_util::future::join_all(readers).await, [200; 4]);
    assert!(connected().await > 1);

    // What is connected stays connected, as after a change of roles that ends nobody's session.
    let set = |to: &str| format!("alter system {to}; select pg_reload_conf()");
    for sql in set("set default_transaction_read_only = on").split("; ") {
        admin.batch_execute(sql).await.unwrap();
    }
    until("a write is refused", async || enqueue(&router, &key).await == 503).await;
    let read = Ask::get("/jobs").bearer(&key).of(&router).await;
    assert!(read.headers.contains_key("retry-after"));
    read.refused(503, "JF106", "database_unavailable");
    Ask::get("/health/ready").of(&router).await.refused(503, "JF106", "database_unavailable");
    until("nobody stays with it", async || {
        // Whoever asks meets the old connections, and ends them.
        list(&router, &key).await;
        connected().await == 0
    })
    .await;

    for sql in set("reset default_transaction_read_only").split("; ") {
        admin.batch_execute(sql).await.unwrap();
    }
    until("it reads again", async || list(&router, &key).await == 200).await;
    until("it writes again", async || enqueue(&router, &key).await == 201).await;
}
