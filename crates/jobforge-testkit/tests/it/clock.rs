//! The settable clock.

use jobforge_testkit::TestDb;
use tokio_postgres::Client;

const STUB: &str = "
    create schema jobforge;
    create function jobforge.clock() returns timestamptz language sql volatile
    as 'select clock_timestamp()';
";

async fn with_stub() -> TestDb {
    let db = TestDb::blank().await;
    db.connect_super().await.batch_execute(STUB).await.unwrap();
    db
}

async fn clock(client: &Client) -> String {
    let sql = "select to_char(jobforge.clock() at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn is_now(client: &Client) -> bool {
    let sql = "select abs(extract(epoch from jobforge.clock() - clock_timestamp())) < 5";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn the_clock_stands_moves_and_runs_again() {
    let db = with_stub().await;
    let client = db.connect_super().await;
    db.set_clock(Some("2030-01-01 12:00:00+00")).await;
    assert_eq!(clock(&client).await, "2030-01-01 12:00:00.000");
    db.advance_clock(90.5).await;
    assert_eq!(clock(&client).await, "2030-01-01 12:01:30.500");
    db.set_clock(None).await;
    assert!(is_now(&client).await);
    db.advance_clock(-3600.0).await;
    assert!(!is_now(&client).await);
}

#[tokio::test]
async fn an_open_transaction_sees_the_clock_move() {
    let db = with_stub().await;
    let client = db.connect_super().await;
    db.set_clock(Some("2030-01-01 00:00:00+00")).await;
    client.batch_execute("begin").await.unwrap();
    clock(&client).await;
    db.advance_clock(60.0).await;
    assert_eq!(clock(&client).await, "2030-01-01 00:01:00.000");
}

#[tokio::test]
async fn every_role_reads_it_and_the_owner_stays() {
    let db = with_stub().await;
    let role = format!("role_{}", uuid::Uuid::new_v4().simple());
    let admin = db.connect_super().await;
    let own = format!(
        "create role {role} login; grant usage on schema jobforge to {role};
         alter function jobforge.clock() owner to {role}"
    );
    admin.batch_execute(&own).await.unwrap();
    db.set_clock(Some("2030-01-01 00:00:00+00")).await;
    assert_eq!(clock(&db.connect(&db.url_as(&role, None)).await).await, "2030-01-01 00:00:00.000");
    let sql = "select proowner::regrole::text from pg_proc where oid = 'jobforge.clock()'::regprocedure";
    assert_eq!(admin.query_one(sql, &[]).await.unwrap().get::<_, String>(0), role);
    admin.batch_execute(&format!("drop owned by {role}; drop role {role}")).await.unwrap();
}
