//! A crowd that waits for one locked row takes no connection that others need.

use axum::http::Method;
use futures_util::future::join_all;
use jobforge_core::Role;
use jobforge_testkit::{NOOP, TENANT_A, TENANT_B};
use serde_json::json;
use uuid::Uuid;

use crate::bounds::waiting;
use crate::worker_agent::Agent;
use crate::world::{Key, World};

const CROWD: usize = 100;

#[tokio::test]
async fn a_hundred_requests_stuck_on_one_row_leave_others_working() {
    let world = World::new().await;
    let (a, b) = (world.key(Role::TenantAdmin).await, world.key_of_b(Role::TenantAdmin).await);
    let (mine, others) = (enqueue(&world, &a).await, enqueue(&world, &b).await);
    let holder = world.db.session().await;
    holder.begin().await;
    holder.query("select from jobforge.jobs where id = $1 for update", &[&mine]).await.unwrap();
    let cancel = |key, id| world.send(Some(key), Method::POST, format!("/jobs/{id}/cancel").leak(), None);
    let crowd = join_all((0..CROWD).map(|_| cancel(&a, mine)));
    let others = async {
        waiting(&world.db, 4).await;
        // Another tenant reads and changes; the same tenant reads.
        for _ in 0..20 {
            world.get(&b, &format!("/jobs/{others}")).await.expect(200);
            world.get(&a, &format!("/jobs/{mine}")).await.expect(200);
        }
        cancel(&b, others).await.expect(200);
        // One that no server has seen before: its key is looked up.
        let new = world.key_of_b(Role::TenantViewer).await;
        world.get(&new, "/jobs").await.expect(200);
        holder.rollback().await;
    };
    let (answers, ()) = tokio::join!(crowd, others);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 409, 503].contains(status)), "{statuses:?}");
}

#[tokio::test]
async fn operators_that_wait_for_one_row_keep_no_credential_from_being_looked_up() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let holder = world.db.session().await;
    holder.begin().await;
    holder.query("select from jobforge.tenants where id = $1 for update", &[&TENANT_A]).await.unwrap();
    let path = format!("/admin/tenants/{TENANT_A}");
    let change = || world.send(Some(&operator), Method::PUT, &path, Some(json!({ "weight": 9 })));
    let crowd = join_all((0..CROWD).map(|_| change()));
    let others = async {
        waiting(&world.db, 4).await;
        let new = world.key_of_b(Role::TenantAdmin).await;
        world.get(&new, "/jobs").await.expect(200);
        world.get(&operator, &format!("/admin/tenants/{TENANT_B}")).await.expect(200);
        holder.rollback().await;
    };
    let (answers, ()) = tokio::join!(crowd, others);
    assert!(answers.iter().all(|answer| [200, 503].contains(&answer.status.as_u16())));
}

#[tokio::test]
async fn workers_that_wait_for_one_row_keep_no_other_worker_waiting() {
    for (verb, more) in
        [("snooze", json!({ "seconds": 60 })), ("complete", json!({})), ("release", json!({}))]
    {
        let world = World::new().await;
        let admin = world.key(Role::TenantAdmin).await;
        let agent = Agent::of_all(&world).await;
        let stuck = enqueue(&world, &admin).await;
        let held = agent.claim(1).await.remove(0);
        let holder = world.db.session().await;
        holder.begin().await;
        holder.query("select from jobforge.jobs where id = $1 for update", &[&stuck]).await.unwrap();
        let crowd = join_all((0..CROWD).map(|_| agent.report(verb, &held, more.clone())));
        let others = async {
            waiting(&world.db, 4).await;
            for _ in 0..3 {
                enqueue(&world, &admin).await;
                let other = agent.claim(1).await.remove(0);
                agent.report("complete", &other, json!({})).await.expect(200);
            }
            holder.rollback().await;
        };
        let (answers, ()) = tokio::join!(crowd, others);
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        assert!(statuses.contains(&200), "{verb}: {statuses:?}");
        assert!(statuses.iter().all(|status| [200, 409, 503].contains(status)), "{verb}: {statuses:?}");
    }
}

async fn enqueue(world: &World, key: &Key) -> Uuid {
    let job = world.post(key, "/jobs", json!({ "type": NOOP })).await.expect(201);
    job["id"].as_str().unwrap().parse().unwrap()
}
