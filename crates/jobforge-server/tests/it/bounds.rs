//! No request waits without a limit: whoever holds a lock, the answer comes, and nothing goes on in the database.

use std::time::Duration;

use axum::http::Method;
use futures_util::StreamExt;
use jobforge_core::Role;
use jobforge_testkit::{NOOP, Session, TENANT_A, TestDb};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::isolation::lines::{LINES, Line, Probe};
use crate::isolation::things::{Ids, Things};
use crate::jobs_cast::Cast;
use crate::world::{Answer, Key, World};

/// How long a call may take here.
const LIMIT: Duration = Duration::from_millis(1500);
/// Far beyond what an answer may take, and below what a guard of all requests would end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Routes that ask the database for nothing, or only for what is not locked here, and those that this caller does not
/// reach.
const FREE: [&str; 8] = [
    "GET /health/live",
    "GET /health/ready",
    "POST /bootstrap",
    "POST /session",
    "GET /session",
    "DELETE /session",
    "POST /jobs/tick",
    "GET /admin/keys",
];

#[tokio::test]
async fn every_route_behind_locked_tables_answers_in_time_and_nothing_goes_on() {
    let world = hasty().await;
    let things = Things::of_a(&world).await;
    let keys = [
        world.key(Role::TenantAdmin).await,
        world.key(Role::Worker).await,
        world.key(Role::SuperAdmin).await,
    ];
    let holder = world.db.session().await;
    lock_all_but(&holder, "api_keys").await;
    // As many at a time as never wait for each other's connections.
    let asked = LINES.iter().filter(|line| !FREE.contains(&line.route));
    let answers = futures_util::stream::iter(asked)
        .map(async |line| (line.route, timeout(PATIENCE, reach(&world, &keys, line, &things.ids)).await))
        .buffer_unordered(3);
    let answers: Vec<_> = answers.collect().await;
    for (route, answer) in answers {
        let answer = answer.unwrap_or_else(|_| panic!("{route} waits without a limit"));
        let told = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert!(answer.headers.contains_key("retry-after"), "{route}: {told}");
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["code"]),
            (503, &json!("JF106")),
            "{route}: {told}"
        );
        assert_eq!(answer.json()["reason"], "call_timeout", "{route}: {told}");
    }
    quiet(&world.db).await;
    holder.rollback().await;
    let job = world.get(&keys[0], &format!("/jobs/{}", things.ids.job)).await.expect(200);
    assert_eq!(job["status"], "queued", "what was told to stop changed nothing");
}

#[tokio::test]
async fn a_read_says_that_it_was_told_to_stop() {
    let cast = Cast::of(hasty().await).await;
    let id = cast.queued().await;
    let holder = cast.world.db.session().await;
    holder.begin().await;
    holder.run("lock table jobforge.jobs in access exclusive mode").await;
    let told = cast.get(&format!("/jobs/{id}")).await.refused(503, "JF106", "call_timeout");
    assert!(told["detail"].as_str().unwrap().contains("nothing was changed"), "{told}");
    quiet(&cast.world.db).await;
    holder.rollback().await;
    assert_eq!(cast.status(id).await, "queued");
}

#[tokio::test]
async fn a_change_of_an_operator_waits_for_a_row_no_longer_than_it_may() {
    let world = hasty().await;
    let operator = world.key(Role::SuperAdmin).await;
    let holder = world.db.session().await;
    holder.begin().await;
    holder.query("select from jobforge.tenants where id = $1 for update", &[&TENANT_A]).await.unwrap();
    holder.query("select from jobforge.definitions where key = $1 for update", &[&NOOP]).await.unwrap();
    let put =
        async |path: &str, body: Value| world.send(Some(&operator), Method::PUT, path, Some(body)).await;
    let tenant = format!("/admin/tenants/{TENANT_A}");
    let definition = format!("/admin/jobs/definitions/{NOOP}");
    put(&tenant, json!({ "weight": 9 })).await.refused(503, "JF106", "call_timeout");
    put(&definition, json!({ "max_attempts": 9 })).await.refused(503, "JF106", "call_timeout");
    quiet(&world.db).await;
    holder.rollback().await;
    assert_eq!(world.get(&operator, &tenant).await.expect(200)["weight"], 1);
    put(&tenant, json!({ "weight": 9 })).await.expect(200);
}

#[tokio::test]
async fn a_request_that_is_dropped_leaves_nothing_behind() {
    // Its own limit is far away: only its end ends the statement.
    let world = World::with(|config| config.call_timeout = PATIENCE * 10).await;
    let cast = Cast::of(world).await;
    let id = cast.queued().await;
    let holder = cast.world.db.session().await;
    holder.begin().await;
    holder.query("select from jobforge.jobs where id = $1 for update", &[&id]).await.unwrap();
    let path = format!("/jobs/{id}/cancel");
    tokio::select! {
        answer = cast.post_nothing(&path) => panic!("{answer:?}"),
        () = waiting(&cast.world.db, 1) => {}
    }
    quiet(&cast.world.db).await;
    holder.rollback().await;
    assert_eq!(cast.status(id).await, "queued");
}

#[tokio::test]
async fn a_step_of_a_bulk_operation_is_bounded_and_the_operation_says_that_it_is_held_up() {
    let cast = Cast::of(hasty().await).await;
    let dead = cast.dead(&["broke", "broke", "broke"]).await;
    let holder = cast.world.db.session().await;
    holder.begin().await;
    holder.query("select from jobforge.jobs where id = $1 for update", &[&dead[1]]).await.unwrap();
    let input = json!({ "kind": "redrive", "filter": { "statuses": ["failed"] }, "reason": "fixed" });
    let started = cast.post("/bulk", input).await.expect(202);
    let path = format!("/bulk/{}", started["id"].as_str().unwrap());
    let held = until(&cast, &path, |bulk| bulk["drive"] == "held_up").await;
    assert_eq!((&held["status"], &held["done"]), (&json!("running"), &json!(0)), "{held}");
    for id in &dead {
        assert_eq!(cast.status(*id).await, "failed", "a step is done as a whole or not at all");
    }
    // It can be resumed, and that does no harm.
    assert_eq!(cast.post_nothing(&format!("{path}/resume")).await.expect(202)["status"], "running");
    holder.rollback().await;
    let finished = until(&cast, &path, |bulk| bulk["status"] == "finished").await;
    assert_eq!((&finished["done"], &finished["drive"]), (&json!(3), &json!(null)), "{finished}");
}

/// The answer of whoever may call this route.
async fn reach(world: &World, keys: &[Key], line: &Line, ids: &Ids) -> Answer {
    let route = ids.fill(line.route).replace("{key}", NOOP).replace("{kind}", "queue");
    let (method, path) = route.split_once(' ').unwrap();
    let body = match &line.probe {
        Probe::Nobodys => None,
        Probe::Own(body) | Probe::Foreign(body) => body.map(|body| body(ids)),
    };
    let query = match line.route {
        "GET /admin/series" => "?metric=depth&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z",
        _ => line.query,
    };
    for key in keys {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = world.send(Some(key), method, &format!("{path}{query}"), body.clone()).await;
        if !matches!(answer.status.as_u16(), 401 | 403) {
            return answer;
        }
    }
    panic!("nobody may call {}", line.route);
}

/// PgBouncer 1.18 ends when a request to cancel comes at the wrong moment, and everybody's connections with it.
#[tokio::test]
async fn where_a_pooler_stands_between_a_late_call_is_left_and_not_canceled() {
    let world = World::with(|config| {
        config.call_timeout = LIMIT;
        config.direct_url = config.worker_url.clone();
    })
    .await;
    let cast = Cast::of(world).await;
    let id = cast.queued().await;
    let holder = cast.world.db.session().await;
    holder.begin().await;
    holder.run("lock table jobforge.jobs in access exclusive mode").await;
    cast.get(&format!("/jobs/{id}")).await.refused(503, "JF106", "call_timeout");
    waiting(&cast.world.db, 1).await;
    holder.rollback().await;
    quiet(&cast.world.db).await;
    assert_eq!(cast.status(id).await, "queued");
}

async fn hasty() -> World {
    World::with(|config| config.call_timeout = LIMIT).await
}

async fn lock_all_but(holder: &Session, free: &str) {
    let tables = "select string_agg(format('%I.%I', schemaname, tablename), ', ') from pg_tables
                  where schemaname = 'jobforge' and tablename <> $1";
    let tables: String = holder.query(tables, &[&free]).await.unwrap()[0].get(0);
    holder.begin().await;
    holder.run(&format!("lock table {tables} in access exclusive mode")).await;
}

/// The operation, once it is so; the server works beside the test.
async fn until(cast: &Cast, path: &str, so: impl Fn(&Value) -> bool) -> Value {
    let mut bulk = Value::Null;
    let looks = async {
        loop {
            bulk = cast.get(path).await.expect(200);
            if so(&bulk) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let came = timeout(PATIENCE, looks).await;
    assert!(came.is_ok(), "{path} stays {bulk}");
    bulk
}

/// Returns when no statement waits for a lock any more, though the lock is still held.
pub(crate) async fn quiet(db: &TestDb) {
    waiters_are(db, |count| count == 0).await;
}

/// Returns when so many statements wait for locks.
pub(crate) async fn waiting(db: &TestDb, at_least: i64) {
    waiters_are(db, |count| count >= at_least).await;
}

async fn waiters_are(db: &TestDb, so: impl Fn(i64) -> bool) {
    let observer = db.connect_super().await;
    let sql = "select count(*) from pg_stat_activity
               where datname = current_database() and state = 'active' and wait_event_type = 'Lock'";
    let mut count = -1;
    let looks = async {
        loop {
            count = observer.query_one(sql, &[]).await.unwrap().get(0);
            if so(count) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let came = timeout(PATIENCE, looks).await;
    assert!(came.is_ok(), "{count} statements wait for locks");
}
