//! Template databases: prepared once per content, cloned for every test.

use tokio_postgres::Client;
use uuid::Uuid;

use crate::db::{TestDb, admin_url, connect};
use crate::or_fail::OrFail;
use crate::run::{Gate, Run};
use crate::shared_cluster::shared_cluster;

impl TestDb {
    /// A clone of the template that `prepare` fills. It is called with the superuser's URL of an empty
    /// database, once for every new `name_hash`: change the hash when the content changes.
    pub async fn from_template(name_hash: &str, prepare: impl AsyncFn(&str)) -> TestDb {
        let address = shared_cluster().await;
        let admin = connect(&admin_url(address)).await;
        let template = template_name(name_hash);
        if !exists(&admin, &template).await {
            let _gate = gate().await;
            // Another process may have made it while this one waited.
            if !exists(&admin, &template).await {
                build(&admin, &template, async |name| prepare(&address.superuser_url(name)).await).await;
            }
        }
        TestDb::clone_of(&admin, address, &template).await
    }

    /// An empty database.
    pub async fn blank() -> TestDb {
        let address = shared_cluster().await;
        let admin = connect(&admin_url(address)).await;
        TestDb::clone_of(&admin, address, "template0").await
    }
}

/// A name holds 63 bytes, and the hash may be longer or hold anything.
fn template_name(name_hash: &str) -> String {
    let safe = name_hash.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    assert!(
        safe && (1..=50).contains(&name_hash.len()),
        "template hash {name_hash:?} is not 1 to 50 of a-z0-9_"
    );
    format!("template_{name_hash}")
}

async fn exists(admin: &Client, name: &str) -> bool {
    let found = admin.query_opt("select 1 from pg_database where datname = $1", &[&name]).await;
    found.or_fail("look for a template database").is_some()
}

/// Built under another name and renamed at the end, so that a template that exists is complete.
async fn build(admin: &Client, template: &str, prepare: impl AsyncFn(&str)) {
    let unfinished = format!("unfinished_{}", Uuid::new_v4().simple());
    let sql = format!("create database {unfinished} template template0");
    admin.batch_execute(&sql).await.or_fail("create a template database");
    prepare(&unfinished).await;
    // The preparer's connections may still be closing, and a template must have none.
    let end = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1";
    admin.query(end, &[&unfinished]).await.or_fail("end the sessions of a template database");
    for sql in [
        format!("alter database {unfinished} with is_template true allow_connections false"),
        format!("alter database {unfinished} rename to {template}"),
    ] {
        admin.batch_execute(&sql).await.or_fail("finish a template database");
    }
}

async fn gate() -> Gate {
    tokio::task::spawn_blocking(|| Run::join().gate()).await.or_fail("wait for the gate of the tests")
}
