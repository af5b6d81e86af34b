//! Two-session stepping.

use jobforge_testkit::TestDb;

async fn with_row() -> TestDb {
    let db = TestDb::blank().await;
    let sql = "create table job (id int primary key, state text); insert into job values (1, 'ready')";
    db.connect_super().await.batch_execute(sql).await.unwrap();
    db
}

#[tokio::test]
async fn a_blocked_statement_goes_on_when_the_lock_is_free() {
    let db = with_row().await;
    let (first, second) = (db.session().await, db.session().await);
    first.begin().await;
    first.run("update job set state = 'running' where id = 1").await;
    let holder = first.pid();

    let sql = "update job set state = 'done' where id = $1 and state = 'ready' returning id";
    let blocked = second.spawn_blocked(sql, vec![Box::new(1)]).await;
    assert_eq!(blocked.blocked_by().await, [holder]);
    assert!(!blocked.is_finished());

    first.commit().await;
    let (second, rows) = blocked.finish().await;
    assert!(rows.unwrap().is_empty());
    assert_eq!(second.query("select 1", &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_error_of_the_blocked_statement_comes_out() {
    let db = with_row().await;
    let (first, second) = (db.session().await, db.session().await);
    first.begin().await;
    first.run("insert into job values (2, 'ready')").await;
    let blocked = second.spawn_blocked("insert into job values (2, 'late')", vec![]).await;
    first.commit().await;
    let (_, result) = blocked.finish().await;
    assert_eq!(result.unwrap_err().code().unwrap().code(), "23505");
}

#[tokio::test]
#[should_panic(expected = "the statement ended instead of waiting for a lock: select 1")]
async fn a_statement_that_does_not_block_fails_the_test() {
    let db = with_row().await;
    db.session().await.spawn_blocked("select 1", vec![]).await;
}
