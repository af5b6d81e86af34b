//! Enqueues that take the short way: whoever has thousands of tenants and types pays for the rows of its call, by their keys.

use jobforge_testkit::TestDb;
use tokio_postgres::Client;
use uuid::Uuid;

use super::fill::quiet;
use super::shape::Scan;
use super::watch::{Seen, Watched};
use crate::schema::{APP, NOOP, migrated};

const TENANTS: i32 = 5000;
const TYPES: i32 = 3000;
/// The tables that grow with tenants, types and logins, and the key that each is looked up by.
const KEYS: [(&str, &str); 3] =
    [("tenants", "tenants_pk"), ("definitions", "definitions_pk"), ("logins", "logins_pk")];

/// Thousands of tenants and of types. Nothing else is in the way of a plain enqueue: no limit, no retention of their own.
async fn fill(admin: &Client) {
    let tenants = "insert into jobforge.tenants (id, name) select lpad(to_hex(n), 32, '0')::uuid, 'filled'
        from generate_series(4096, 4095 + $1::integer) as n";
    admin.execute(tenants, &[&TENANTS]).await.expect("make tenants");
    let types = "insert into jobforge.definitions (key) select 'filled.t' || n from generate_series(1, $1::integer) as n";
    admin.execute(types, &[&TYPES]).await.expect("make types");
}

/// So many rows, each of another tenant and type.
fn rows(count: u128) -> (Vec<Uuid>, Vec<String>) {
    (0..count).map(|n| (Uuid::from_u128(4096 + n * 7), format!("filled.t{}", 1 + n * 5))).unzip()
}

/// Every table that grows is looked up by its key, no more often than there are rows.
fn faults(what: &str, seen: &Seen, rows: u64) -> Vec<String> {
    let mut faults = Vec::new();
    for (table, key) in KEYS {
        let scans: Vec<&Scan> = seen.scans.iter().filter(|scan| scan.table == table).collect();
        let by_key = |scan: &Scan| scan.kind.starts_with("Index") && scan.index == key && scan.tuples <= rows;
        faults.extend(scans.iter().filter(|scan| !by_key(scan)).map(|scan| format!("{what}: {scan}")));
        // A server's call for many asks of its login elsewhere.
        if scans.is_empty() && table != "logins" {
            faults.push(format!("{what}: {table} is not read"));
        }
    }
    // Whatever it is of: nothing that has rows is walked from end to end.
    let walked = |scan: &&Scan| scan.kind == "Seq Scan" && scan.tuples > 0;
    faults.extend(seen.scans.iter().filter(walked).map(|scan| format!("{what}: {scan}")));
    // The long way would do, too, and is not what is looked at.
    let long = |scan: &Scan| {
        scan.statement.contains("owners as materialized") || scan.statement.contains("check_jobs")
    };
    if seen.scans.iter().any(long) {
        faults.push(format!("{what}: the plain way was not taken"));
    }
    faults
}

async fn plain(app: &mut Watched) -> Vec<String> {
    let (tenants, types) = rows(3);
    let mut found = Vec::new();
    for (tenant, kind) in tenants.iter().zip(&types) {
        app.run(&format!("set app.tenant_id = '{tenant}'")).await;
        let call = "select jobforge.enqueue_plain($1, $2, '{\"n\": 1}', 'somebody')";
        let seen = app.call(call, &[tenant, kind]).await;
        found.extend(faults("enqueue_plain", &seen, 1));
    }
    app.run("reset app.tenant_id").await;
    found
}

async fn gathered(app: &mut Watched) -> Vec<String> {
    let mut found = Vec::new();
    for count in [1, 20, 500] {
        let (tenants, types) = rows(count);
        let call = "select id, error_code from jobforge.enqueue_gathered($1, $2,
            array_fill('{\"n\": 1}'::jsonb, array[cardinality($2::text[])]))";
        let seen = app.call(call, &[&tenants, &types]).await;
        assert_eq!(seen.rows.len(), tenants.len());
        assert!(seen.rows.iter().all(|row| row.get::<_, Option<Uuid>>(0).is_some()), "a row was refused");
        found.extend(faults(&format!("enqueue_gathered of {count}"), &seen, tenants.len() as u64));
    }
    found
}

async fn hold(app: &mut Watched, state: &str) {
    let mut found = plain(app).await;
    found.extend(gathered(app).await);
    assert!(found.is_empty(), "{state}:\n{}", found.join("\n"));
}

/// A session that has made its plans while there was nearly nothing.
async fn early(db: &TestDb) -> Watched {
    let mut app = Watched::login(db, APP).await;
    let tenant = jobforge_testkit::TENANT_A;
    for _ in 0..10 {
        app.run(&format!("set app.tenant_id = '{tenant}'")).await;
        app.call("select jobforge.enqueue_plain($1, $2, '{}')", &[&tenant, &NOOP]).await;
        app.run("reset app.tenant_id").await;
        let call = "select id from jobforge.enqueue_gathered(array[$1::uuid], array[$2::text], '{\"{}\"}')";
        app.call(call, &[&tenant, &NOOP]).await;
    }
    app
}

#[tokio::test]
async fn plain_enqueues_look_tenants_and_types_up_by_their_keys() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    let mut old = early(&db).await;
    fill(&admin).await;
    hold(&mut Watched::login(&db, APP).await, "never analysed").await;
    admin.batch_execute("analyze").await.expect("analyze");
    hold(&mut Watched::login(&db, APP).await, "analysed").await;
    hold(&mut old, "analysed, in a session with plans of before").await;
}

/// The rules themselves must be able to fail.
#[tokio::test]
async fn a_walk_over_all_tenants_or_types_is_noticed() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    fill(&admin).await;
    admin.batch_execute("analyze").await.expect("analyze");
    let walk = "set enable_indexscan = off set enable_indexonlyscan = off set enable_bitmapscan = off";
    let gathering = "select oid::regprocedure::text from pg_proc where proname = 'enqueue_gathered'";
    let gathering: String = admin.query_one(gathering, &[]).await.expect("find the function").get(0);
    for function in ["jobforge.enqueue_plain(uuid, text, jsonb, text)", &gathering] {
        admin.batch_execute(&format!("alter function {function} {walk}")).await.expect("forbid indexes");
    }
    let mut app = Watched::login(&db, APP).await;
    for found in [plain(&mut app).await, gathered(&mut app).await] {
        for table in ["tenants", "definitions"] {
            let walks = |fault: &String| fault.contains("Seq Scan of ") && fault.contains(table);
            assert!(found.iter().any(walks), "no rule misses the key of {table}: {found:?}");
        }
    }
}
