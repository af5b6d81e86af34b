//! The product's schema for the tests of this crate: the SQL files as they are (or with a deliberate fault), the
//! logins that call them, two tenants, two job types and two workers.
//!
//! The files are read when a test runs: a change to the SQL needs no rebuild and makes a new template.

pub(crate) mod calls;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use jobforge_testkit::{TestDb, connect};
use tokio_postgres::Client;
use uuid::{Uuid, uuid};

pub(crate) const TENANT_A: Uuid = uuid!("11111111-1111-1111-1111-111111111111");
pub(crate) const TENANT_B: Uuid = uuid!("22222222-2222-2222-2222-222222222222");

/// The type and queue of most test jobs, and another type of the same queue.
pub(crate) const NOOP: &str = "test.noop";
pub(crate) const OTHER: &str = "test.other";
pub(crate) const QUEUE: &str = "default";

/// Every login of the tests: its name, the role it is a member of, and the tenant it is bound to. The logins
/// belong to the whole server and look the same for every database of it.
pub(crate) const LOGINS: [(&str, &str, Option<Uuid>); 6] = [
    (APP, "jf_tenant", None),
    (ONLY_A, "jf_tenant", Some(TENANT_A)),
    (ONLY_B, "jf_tenant", Some(TENANT_B)),
    (WORKER, "jf_worker", None),
    (WORKER_A, "jf_worker", Some(TENANT_A)),
    (OPERATOR, "jf_operator", None),
];
pub(crate) const APP: &str = "jf_test_app";
pub(crate) const ONLY_A: &str = "jf_test_tenant_a";
pub(crate) const ONLY_B: &str = "jf_test_tenant_b";
pub(crate) const WORKER: &str = "jf_test_worker";
pub(crate) const WORKER_A: &str = "jf_test_worker_a";
pub(crate) const OPERATOR: &str = "jf_test_operator";
/// A login that nobody registered and that is a member of nothing.
pub(crate) const STRANGER: &str = "jf_test_stranger";

/// PostgREST's login, which can do nothing itself, and the roles that its requests switch to: a caller with a token
/// and one without.
pub(crate) const GATE: &str = "jf_test_gate";
pub(crate) const WEB: &str = "jf_test_web";
pub(crate) const ANON: &str = "jf_test_anon";
/// The same, set up wrongly: they can become an operator or a worker besides.
pub(crate) const OPERATOR_GATE: &str = "jf_test_gate_operator";
pub(crate) const WORKER_GATE: &str = "jf_test_gate_worker";
pub(crate) const GATES: [&str; 3] = [GATE, OPERATOR_GATE, WORKER_GATE];

/// A database with the schema, the logins, tenants A and B, both types, the workers `w1` and `w2`, and the
/// history's partitions. Nobody leads.
pub(crate) async fn migrated() -> TestDb {
    let files = sql_files();
    let mut hasher = DefaultHasher::new();
    (&files, include_str!("schema.rs")).hash(&mut hasher);
    let name = format!("sql_{:016x}", hasher.finish());
    let db = TestDb::from_template(&name, async |url| build(&connect(url).await, &files).await).await;
    // A clone has its template's content, not its template's own privileges.
    let close = format!("revoke temporary on database {} from public", db.name());
    db.connect_super().await.batch_execute(&close).await.expect("close the clone to temporary tables");
    db
}

/// The same from SQL that a mutation changed; fails if the mutation left every file as it was.
pub(crate) async fn mutated(mutate: impl Fn(&str, String) -> String) -> TestDb {
    let original = sql_files();
    let files: SqlFiles =
        original.iter().map(|(name, text)| (name.clone(), mutate(name, text.clone()))).collect();
    assert!(original != files, "the mutation changed nothing: the SQL it looks for is gone");
    let db = TestDb::blank().await;
    build(&db.connect_super().await, &files).await;
    db
}

/// A connection as one of the logins.
pub(crate) async fn connect_as(db: &TestDb, login: &str) -> Client {
    connect(&db.url_as(login, None)).await
}

type SqlFiles = Vec<(String, String)>;

/// The migrations, then the functions, each in the order of their names.
fn sql_files() -> SqlFiles {
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql");
    let mut files = SqlFiles::new();
    for folder in ["migrations", "functions"] {
        let listed =
            fs::read_dir(sql.join(folder)).unwrap_or_else(|e| panic!("cannot list sql/{folder}: {e}"));
        let mut names: Vec<String> = listed
            .map(|entry| {
                entry.expect("a directory entry is readable").file_name().to_string_lossy().into_owned()
            })
            .filter(|name| name.ends_with(".sql"))
            .collect();
        names.sort();
        for name in names {
            let text = fs::read_to_string(sql.join(folder).join(&name));
            let text = text.unwrap_or_else(|e| panic!("cannot read sql/{folder}/{name}: {e}"));
            files.push((name, text));
        }
    }
    files
}

/// All files in one transaction, as the migrating login applies them, then what the tests need beside them.
async fn build(admin: &Client, files: &SqlFiles) {
    let mut failed_in = "begin";
    let applied = async {
        // Functions refer to functions of later files.
        admin.batch_execute("begin; set local check_function_bodies = off").await?;
        for (name, text) in files {
            failed_in = name;
            let owner = text.lines().next().and_then(|line| line.strip_prefix("-- owner: "));
            if let Some(owner) = owner {
                admin.batch_execute(&format!("set local role {owner}")).await?;
            }
            admin.batch_execute(text).await?;
            admin.batch_execute("reset role").await?;
        }
        admin.batch_execute("commit").await
    };
    let applied = applied.await;
    applied.unwrap_or_else(|e| panic!("cannot apply {failed_in}: {}", told(&e)));
    for (what, sql) in [
        ("make the logins", make_logins()),
        ("make the gates", make_gates()),
        ("furnish the schema", furniture()),
    ] {
        admin.batch_execute(&sql).await.unwrap_or_else(|e| panic!("cannot {what}: {}", told(&e)));
    }
}

/// Other test processes make the same roles at the same moment in other databases, where no lock of this one is
/// seen: losing that race is as good as winning it.
fn make_logins() -> String {
    let mut sql = String::new();
    for (login, member_of) in LOGINS.iter().map(|l| (l.0, l.1)).chain([(STRANGER, "")]) {
        let grant =
            if member_of.is_empty() { "null".to_owned() } else { format!("grant {member_of} to {login}") };
        sql.push_str(&format!(
            "do $$ begin
               if not exists (select from pg_roles where rolname = '{login}') then
                 create role {login} login password 'jobforge';
               end if;
             exception when duplicate_object or unique_violation then null;
             end $$;
             do $$ begin
               if '{member_of}' <> '' and not pg_has_role('{login}', nullif('{member_of}', ''), 'member') then
                 {grant};
               end if;
             exception when unique_violation or internal_error then null;
             end $$;"
        ));
    }
    sql
}

/// As the guide for PostgREST says; other test processes make the same, see [`make_logins`].
fn make_gates() -> String {
    let roles = [(WEB, "nologin"), (ANON, "nologin")];
    let logins = GATES.map(|gate| (gate, "login noinherit password 'jobforge'"));
    let grants = [
        ("jf_tenant", WEB),
        (WEB, GATE),
        (ANON, GATE),
        (WEB, OPERATOR_GATE),
        ("jf_operator", OPERATOR_GATE),
        (WEB, WORKER_GATE),
        ("jf_worker", WORKER_GATE),
    ];
    let mut sql = String::new();
    for (role, kind) in roles.into_iter().chain(logins) {
        sql.push_str(&format!(
            "do $$ begin
               if not exists (select from pg_roles where rolname = '{role}') then create role {role} {kind}; end if;
             exception when duplicate_object or unique_violation then null;
             end $$;"
        ));
    }
    for (group, member) in grants {
        sql.push_str(&format!(
            "do $$ begin
               if not pg_has_role('{member}', '{group}', 'member') then grant {group} to {member}; end if;
             exception when unique_violation or internal_error then null;
             end $$;"
        ));
    }
    sql
}

/// What an installation has before its first job, made by the functions that make it there.
fn furniture() -> String {
    let mut sql = String::new();
    for (login, _, tenant) in LOGINS {
        let tenant = tenant.map_or("null".to_owned(), |id| format!("'{id}'"));
        sql.push_str(&format!("select jobforge.bind_login('{login}', {tenant});"));
    }
    for gate in GATES {
        sql.push_str(&format!("select jobforge.bind_login('{gate}');"));
    }
    sql.push_str(&format!(
        "set session authorization {OPERATOR};
         select jobforge.upsert_tenant('{TENANT_A}', 'A'), jobforge.upsert_tenant('{TENANT_B}', 'B');
         select jobforge.upsert_definition('{NOOP}'), jobforge.upsert_definition('{OTHER}');
         select jobforge.upkeep_partitions(l.term, 1000) from jobforge.lead('test') as l;
         select jobforge.resign('test');
         set session authorization {WORKER};
         select jobforge.register_worker(w, 'testhost', 1, 'test', '{{{QUEUE}}}', '{{{NOOP},{OTHER}}}', 10)
         from unnest('{{w1,w2}}'::text[]) as w;
         reset session authorization;"
    ));
    sql
}

/// An error as `code (reason): message`, the reason being what stands in DETAIL.
pub(crate) fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({}): {}", db.code().code(), db.detail().unwrap_or(""), db.message()),
        None => error.to_string(),
    }
}
