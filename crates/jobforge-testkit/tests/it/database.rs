//! One Postgres for all processes, one database for each test.

use std::process::Command;

use jobforge_testkit::TestDb;

/// The same test in another process, which prints what it sees.
fn seen_by_another_process() -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "database::tells_its_server", "--include-ignored", "--nocapture"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn server(db: &TestDb) -> String {
    let sql = "select 'server ' || system_identifier || ' since ' || pg_postmaster_start_time()
               from pg_control_system()";
    db.connect_super().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
#[ignore = "is run by processes_share_one_server"]
async fn tells_its_server() {
    println!("{}", server(&TestDb::blank().await).await);
}

#[tokio::test]
async fn processes_share_one_server() {
    let db = TestDb::blank().await;
    let seen = seen_by_another_process();
    assert!(seen.contains(&server(&db).await), "{seen}");
}

#[tokio::test]
async fn tests_get_databases_of_their_own_that_go_away() {
    let (one, two) = (TestDb::blank().await, TestDb::blank().await);
    one.connect_super().await.batch_execute("create table mine ()").await.unwrap();
    assert!(two.connect_super().await.query("select * from mine", &[]).await.is_err());

    let name = one.name().to_owned();
    let still_open = one.connect_super().await;
    drop(one);
    let found =
        two.connect_super().await.query("select 1 from pg_database where datname = $1", &[&name]).await;
    assert!(found.unwrap().is_empty());
    assert!(still_open.query("select 1", &[]).await.is_err());
}

#[tokio::test]
async fn a_template_is_prepared_once_and_cloned() {
    let hash = format!("self_test_{}", uuid::Uuid::new_v4().simple());
    let prepared = std::cell::Cell::new(0);
    let clone = async || {
        let prepare = async |url: &str| {
            prepared.set(prepared.get() + 1);
            let client = jobforge_testkit::connect(url).await;
            client.batch_execute("create table prepared as select 7 as n").await.unwrap();
        };
        TestDb::from_template(&hash, prepare).await
    };
    let first = clone().await;
    first.connect_super().await.batch_execute("delete from prepared").await.unwrap();
    let second = clone().await;
    let n: i32 = second.connect_super().await.query_one("select n from prepared", &[]).await.unwrap().get(0);
    assert_eq!((n, prepared.get()), (7, 1));
}

#[tokio::test]
async fn roles_come_in_with_and_without_a_password() {
    let db = TestDb::blank().await;
    let role = format!("role_{}", uuid::Uuid::new_v4().simple());
    let admin = db.connect_super().await;
    admin.batch_execute(&format!("create role {role} login password 'a:b/c'")).await.unwrap();
    for password in [Some("a:b/c"), None] {
        let client = db.connect(&db.url_as(&role, password)).await;
        let user: String = client.query_one("select current_user::text", &[]).await.unwrap().get(0);
        assert_eq!(user, role);
    }
    admin.batch_execute(&format!("drop role {role}")).await.unwrap();
}
