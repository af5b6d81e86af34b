//! Each setting of a server has its effect.

use axum::http::Method;
use futures_util::future::join_all;
use jobforge_core::Role;
use jobforge_testkit::{APP, NOOP};
use serde_json::json;

use crate::bounds::waiting;
use crate::world::World;

#[tokio::test]
async fn a_body_is_as_large_as_it_may_be() {
    let world = World::with(|config| config.max_body_bytes = 2048).await;
    let producer = world.key(Role::Producer).await;
    let job = |size: usize| json!({ "type": NOOP, "payload": { "text": "x".repeat(size) } });
    world.post(&producer, "/jobs", job(1900)).await.expect(201);
    world.post(&producer, "/jobs", job(2048)).await.refused(413, "JF103", "body_too_large");
}

#[tokio::test]
async fn a_login_has_as_many_connections_as_it_may() {
    const CONNECTIONS: i64 = 3;
    let world = World::with(|config| config.connections = 3).await;
    let viewer = world.key(Role::TenantViewer).await;
    let holder = world.db.session().await;
    holder.begin().await;
    holder.run("lock table jobforge.jobs in access exclusive mode").await;
    let reads = join_all((0..10).map(|_| world.send(Some(&viewer), Method::GET, "/jobs", None)));
    let release = async {
        waiting(&world.db, CONNECTIONS).await;
        holder.rollback().await;
    };
    let (answers, ()) = tokio::join!(reads, release);
    answers.into_iter().for_each(|answer| drop(answer.expect(200)));
    let sessions =
        "select count(*) from pg_stat_activity where datname = current_database() and usename = $1";
    let sessions = world.db.connect_super().await.query_one(sessions, &[&APP]).await.unwrap();
    assert_eq!(sessions.get::<_, i64>(0), CONNECTIONS);
}
