//! What a server asks all day: keys, deeds and waiters, each by its index, whatever is stored.

use jobforge_testkit::TestDb;
use uuid::Uuid;

use super::fill::{Jobs, fill, fill_history, quiet, tenant};
use super::shape::Scan;
use super::watch::Watched;
use crate::schema::{APP, NOOP, OPERATOR, migrated};

/// A call, the table it reads, by which index, and how many rows at most.
type Rule = (&'static str, &'static str, &'static str, u64);

const TENANTS: [Rule; 2] = [
    ("select * from jobforge.list_audit($1, p_limit => 10)", "audit_log", "audit_log_tenant", 1000),
    ("select * from jobforge.list_audit($1, 'queue', '7')", "audit_log", "audit_log_subject", 1000),
];

const OPERATORS: [Rule; 5] = [
    ("select * from jobforge.list_system_audit(p_limit => 10)", "audit_log", "audit_log_age", 1000),
    ("select * from jobforge.find_api_key('000000000007')", "api_keys", "api_keys_pk", 1),
    ("select * from jobforge.find_session(sha256('7'))", "sessions", "sessions_pk", 1),
    ("select * from jobforge.find_session(sha256('7'))", "api_keys", "api_keys_pk", 1),
    ("select * from jobforge.list_api_keys(p_limit => 10)", "api_keys", "api_keys_pk", 10),
];

fn broken(scans: &[Scan], (call, table, index, most): Rule) -> Vec<String> {
    let of_table: Vec<&Scan> = scans.iter().filter(|scan| scan.table == table && scan.tuples > 0).collect();
    let mut faults: Vec<String> = of_table
        .iter()
        .filter(|scan| scan.index != index || scan.tuples > most)
        .map(|scan| format!("{call}: {scan}"))
        .collect();
    if of_table.is_empty() {
        faults.push(format!("{call}: {table} is not read"));
    }
    faults
}

async fn hold(db: &TestDb, state: &str) {
    let (mut app, mut operator) = (Watched::login(db, APP).await, Watched::login(db, OPERATOR).await);
    app.run(&format!("set app.tenant_id = '{}'", tenant(0))).await;
    let mut faults = Vec::new();
    for rule in TENANTS {
        faults.extend(broken(&app.call(rule.0, &[&tenant(0)]).await.scans, rule));
    }
    for rule in OPERATORS {
        faults.extend(broken(&operator.call(rule.0, &[]).await.scans, rule));
    }
    let admin = db.connect_super().await;
    let some = "(select tenant_id, id from jobforge.jobs limit 50) union all (select tenant_id, id from jobforge.job_history limit 50)";
    let asked = admin.query(some, &[]).await.expect("some jobs");
    let (tenants, ids): (Vec<Uuid>, Vec<Uuid>) =
        asked.iter().map(|row| (row.get::<_, Uuid>(0), row.get::<_, Uuid>(1))).unzip();
    let seen = operator.call("select * from jobforge.finished_jobs($1, $2)", &[&tenants, &ids]).await;
    assert_eq!(seen.rows.len(), 50, "those of the history are over");
    let looked = |scan: &Scan| scan.table.starts_with("job") && scan.tuples > 0;
    let by_key = |scan: &Scan| scan.has("tenant_id = ") && scan.has("id = ") && scan.tuples <= 50;
    faults.extend(seen.scans.iter().filter(|scan| looked(scan) && !by_key(scan)).map(ToString::to_string));
    assert!(faults.is_empty(), "{state}:\n{}", faults.join("\n"));
}

#[tokio::test]
async fn keys_deeds_and_waiters_are_found_by_their_indexes() {
    let db = migrated().await;
    let admin = quiet(&db).await;
    fill(&admin, Jobs { count: 20_000, tenants: 10, kind: NOOP, state: "ready" }).await;
    fill_history(&admin, 20_000).await;
    let deeds = "insert into jobforge.audit_log (tenant_id, at, actor, action, subject_kind, subject_id)
        select case when n % 10 = 0 then $1::uuid else $2 end, now() - n * interval '1 second', 'nobody', 'deed', 'queue', (n % 100)::text
        from generate_series(1, 50000) as n";
    admin.execute(deeds, &[&tenant(1), &tenant(0)]).await.expect("make entries");
    let keys = "insert into jobforge.api_keys (id, secret_sha256, role, created_at, created_by)
        select lpad(n::text, 12, '0'), sha256('x'), 'worker', now(), 'nobody' from generate_series(1, 5000) as n";
    admin.batch_execute(keys).await.expect("make keys");
    let sessions = "insert into jobforge.sessions (id_sha256, key_id, created_at, expires_at)
        select sha256(n::text::bytea), lpad(n::text, 12, '0'), now(), 'infinity' from generate_series(1, 5000) as n";
    admin.batch_execute(sessions).await.expect("make sessions");
    hold(&db, "never analysed").await;
    admin.batch_execute("analyze").await.expect("analyze");
    hold(&db, "analysed").await;
}
