//! Looking at dead letters: pages, groups, and what a look refuses.

use tokio_postgres::Row;
use uuid::Uuid;

use crate::races::stage::{Stage, refusal};
use crate::schema::TENANT_A;

async fn list(stage: &Stage, arguments: &str) -> (Vec<Row>, Option<String>, bool) {
    let sql = format!("select * from jobforge.list_dead_letters('{TENANT_A}', {arguments})");
    let mut rows = stage.app.query(&sql, &[]).await.unwrap();
    let end = rows.pop().unwrap();
    (rows, end.get("next_cursor"), end.get("complete"))
}

fn ids(rows: &[Row]) -> Vec<Uuid> {
    rows.iter().map(|row| row.get("id")).collect()
}

#[tokio::test]
async fn a_page_has_the_last_to_die_first_and_a_cursor() {
    let stage = Stage::set().await;
    let mut dead = Vec::new();
    for _ in 0..6 {
        dead.insert(0, stage.dead().await);
    }
    stage.job().await;
    // Of those that died in one moment the id decides.
    stage.meddle("update jobforge.jobs set finished_at = date_trunc('day', finished_at) where finished_at is not null", &[]).await;
    let (rows, cursor, complete) = list(&stage, "p_limit => 4").await;
    assert_eq!((ids(&rows).as_slice(), complete), (&dead[..4], true));
    let (rows, cursor, complete) =
        list(&stage, &format!("p_limit => 4, p_cursor => '{}'", cursor.unwrap())).await;
    assert_eq!((ids(&rows).as_slice(), cursor, complete), (&dead[4..], None, true));
    let row = &rows[0];
    let class: (String, String) = (row.get("status"), row.get("class"));
    assert_eq!(class, ("failed".to_owned(), "failed/permanent".to_owned()));
    assert_eq!(row.get::<_, String>("error"), "told to fail");
    assert_eq!(row.get::<_, String>("fingerprint").len(), 16);
}

#[tokio::test]
async fn a_page_is_filtered() {
    let stage = Stage::set().await;
    let first = stage.dead_with("'{}', p_queue => 'default'", "permanent", "user 1 not found").await;
    stage.pass(10.0).await;
    let second = stage.dead_with("'{}', p_max_attempts => 1", "retryable", "user 2 not found").await;
    let now = stage.now().await;
    for (arguments, wanted) in [
        ("p_type => 'test.noop'".to_owned(), vec![second, first]),
        ("p_type => 'test.other'".to_owned(), vec![]),
        ("p_queue => 'elsewhere'".to_owned(), vec![]),
        (format!("p_failed_after => to_timestamp({now})"), vec![second]),
        (format!("p_failed_before => to_timestamp({now})"), vec![first]),
        ("p_fingerprint => '0000000000000000'".to_owned(), vec![]),
    ] {
        let (rows, ..) = list(&stage, &arguments).await;
        assert_eq!(ids(&rows), wanted, "{arguments}");
    }
    let (rows, ..) = list(&stage, "null").await;
    let prints: Vec<String> = rows.iter().map(|row| row.get("fingerprint")).collect();
    assert_ne!(prints[0], prints[1], "dead is not failed");
    let (rows, ..) = list(&stage, &format!("p_fingerprint => '{}'", prints[1])).await;
    assert_eq!(ids(&rows), [first]);
}

#[tokio::test]
async fn a_lost_worker_is_a_class_of_its_own() {
    let stage = Stage::set().await;
    let id = stage.running().await.id;
    stage.meddle("update jobforge.jobs set deaths = 4, fence = 5 where id = $1", &[&id]).await;
    stage.pass(60.0).await;
    stage.reap().await;
    let (rows, ..) = list(&stage, "null").await;
    assert_eq!((ids(&rows), rows[0].get::<_, String>("class")), (vec![id], "dead/lost".to_owned()));
}

#[tokio::test]
async fn groups_are_told_with_their_size_and_a_sample() {
    let stage = Stage::set().await;
    let mut of_users = Vec::new();
    for n in 0..3 {
        of_users.push(stage.dead_with("'{}'", "permanent", &format!("user {n} not found")).await);
        stage.pass(10.0).await;
    }
    let disk = stage.dead_with("'{}'", "permanent", "disk full").await;
    let group = async |arguments: &str| {
        let sql = format!(
            "select message, jobs, sample_id, sample_error, capped, round(extract(epoch from last_at - first_at))::float8, type, class
             from jobforge.group_dead_letters('{TENANT_A}', {arguments})"
        );
        let rows = stage.app.query(&sql, &[]).await.unwrap();
        let told = |row: &Row| {
            (row.get::<_, String>(0), row.get::<_, i64>(1), row.get::<_, Uuid>(2), row.get::<_, bool>(4))
        };
        (rows.iter().map(told).collect::<Vec<_>>(), rows)
    };
    let users = "user <n> not found".to_owned();
    let (told, rows) = group("null").await;
    assert_eq!(told, [(users.clone(), 3, of_users[2], false), ("disk full".to_owned(), 1, disk, false)]);
    assert_eq!(
        (rows[0].get::<_, String>(3), rows[0].get::<_, f64>(5)),
        ("user 2 not found".to_owned(), 20.0)
    );
    assert_eq!(
        (rows[0].get::<_, String>(6), rows[0].get::<_, String>(7)),
        ("test.noop".into(), "failed/permanent".into())
    );
    // The last three of four are looked at: it is said that there are more.
    let (told, _) = group("p_scan => 3").await;
    assert_eq!(told, [(users, 2, of_users[2], true), ("disk full".to_owned(), 1, disk, true)]);
    assert_eq!(group("p_scan => 4, p_limit => 1").await.0.len(), 1);
    assert_eq!(group("p_type => 'test.other'").await.0, []);
    assert_eq!(group("p_queue => 'elsewhere'").await.0, []);
    let now = stage.now().await;
    assert_eq!(group(&format!("p_failed_after => to_timestamp({now})")).await.0.len(), 1);
    assert_eq!(group(&format!("p_failed_before => to_timestamp({now})")).await.0[0].1, 3);
}

#[tokio::test]
async fn a_look_has_bounds() {
    let stage = Stage::set().await;
    for (call, reason) in [
        ("list_dead_letters($1, p_limit => 0)", "JF001 limit_out_of_range"),
        ("list_dead_letters($1, p_limit => 1001)", "JF001 limit_out_of_range"),
        ("list_dead_letters($1, p_budget_ms => 0)", "JF001 budget_out_of_range"),
        ("list_dead_letters($1, p_cursor => '')", "JF001 cursor_malformed"),
        ("list_dead_letters($1, p_cursor => '1_x')", "JF001 cursor_malformed"),
        ("group_dead_letters($1, p_limit => 0)", "JF001 limit_out_of_range"),
        ("group_dead_letters($1, p_scan => 100001)", "JF001 scan_out_of_range"),
        ("list_bulks($1, p_limit => 0)", "JF001 limit_out_of_range"),
        ("list_bulk_results($1)", "JF001 operation_or_job"),
        ("list_bulk_results($1, gen_random_uuid(), gen_random_uuid())", "JF001 operation_or_job"),
        ("get_bulk($1, gen_random_uuid())", "JF007 bulk_unknown"),
        ("step_bulk($1, gen_random_uuid())", "JF007 bulk_unknown"),
        ("undo_bulk($1, gen_random_uuid())", "JF007 bulk_unknown"),
        ("step_bulk($1, gen_random_uuid(), 0)", "JF001 limit_out_of_range"),
    ] {
        let sql = format!("select * from jobforge.{call}");
        assert_eq!(refusal(stage.app.query(&sql, &[&TENANT_A]).await), reason, "{call}");
    }
}

/// More dead letters than one look takes at a time, all of one moment but the first: the walks go on where they were.
#[tokio::test]
async fn a_long_walk_goes_on_where_it_was() {
    let stage = Stage::set().await;
    let first = stage.dead_with("'{}'", "permanent", "disk full").await;
    stage.pass(1.0).await;
    let last = stage.dead().await;
    let many = "insert into jobforge.jobs (tenant_id, id, run_at, created_at, finished_at, max_attempts, priority, ready, status,
                  retention, queue, type, payload, source, error, fence)
                select j.tenant_id, jobforge.make_id(jobforge.id_base(j.created_at), jobforge.id_tail(), n), j.run_at, j.created_at, j.finished_at, 5, 100,
                  false, 'failed', 'week', 'default', 'test.noop', '{}', 'manual', 'told to fail', 1
                from jobforge.jobs j cross join generate_series(1, 2500) as n where j.id = $1";
    stage.meddle(many, &[&last]).await;
    let sql = "select fingerprint from jobforge.group_dead_letters($1) where message = 'disk full'";
    let print: String = stage.app.query(sql, &[&TENANT_A]).await.unwrap()[0].get(0);
    let (rows, cursor, complete) = list(&stage, &format!("'{print}', p_budget_ms => 60000")).await;
    assert_eq!((ids(&rows), cursor, complete), (vec![first], None, true));
    let (rows, ..) = list(&stage, "p_limit => 1000").await;
    assert_eq!(rows.len(), 1000);

    // Each job once, whatever the size of the steps.
    let operation = stage.start(r#"'redrive', '{"statuses": ["failed"]}'"#).await.unwrap();
    assert_eq!(stage.step(operation, 1100).await, "running 1100/0 0/0");
    assert_eq!(stage.step(operation, 1300).await, "running 2400/0 0/0");
    assert_eq!(stage.step(operation, 1300).await, "finished 2502/0 0/0");
    assert_eq!(stage.count("select count(distinct job_id) from jobforge.bulk_results").await, 2502);
    assert_eq!(stage.undo(operation, 1500).await.unwrap(), "undoing 2502/0 1500/0");
    assert_eq!(stage.undo(operation, 1500).await.unwrap(), "undone 2502/0 2502/0");
    let told = stage.redrive(&format!("p_fingerprint => '{print}', p_budget_ms => 60000")).await;
    assert_eq!(told, [(first, "redriven".to_owned())]);
    let told = stage.redrive("p_type => 'test.noop', p_limit => 10000, p_budget_ms => 60000").await;
    assert_eq!(told.len(), 2501);
    let operation = stage.start(r#"'cancel', '{"type": "test.noop"}'"#).await.unwrap();
    assert_eq!(stage.step(operation, 2000).await, "running 2000/0 0/0");
    assert_eq!(stage.step(operation, 2000).await, "finished 2502/0 0/0");
}
