//! How enqueues are written: together, each on its own, or by a login that may act for one tenant only.

use std::time::Duration;

use futures_util::future::{join, join_all};
use jobforge_core::rpc::enqueue_job;
use jobforge_core::{NewJob, Role};
use jobforge_server::ServerConfig;
use jobforge_testkit::{APP, NOOP, ONLY_A, TENANT_A};
use serde_json::json;
use tokio::time::sleep;

use crate::world::World;

const JOBS: usize = 40;

async fn transactions(gather: bool) -> i64 {
    let world = World::with(|config| config.gather = gather).await;
    let key = world.key(Role::Producer).await;
    let jobs = (0..JOBS).map(|n| match n % 2 {
        0 => json!({ "type": NOOP }),
        _ => json!({ "type": NOOP, "idempotency_key": n.to_string() }),
    });
    let answers = join_all(jobs.map(|job| world.post(&key, "/jobs", job))).await;
    answers.into_iter().for_each(|answer| drop(answer.expect(201)));
    let count = "select count(distinct xmin::text) from jobforge.jobs";
    world.db.connect_super().await.query_one(count, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn jobs_are_written_together_only_where_that_is_wanted() {
    assert_eq!(transactions(false).await, i64::try_from(JOBS).unwrap());
    assert!(transactions(true).await < i64::try_from(JOBS).unwrap());
}

#[tokio::test]
async fn jobs_of_many_tenants_go_to_their_own_and_bad_ones_alone_are_refused() {
    let world = World::new().await;
    let keys = [world.key(Role::Producer).await, world.key_of_b(Role::Producer).await];
    let jobs = (0..JOBS).map(|n| match n % 4 {
        3 if n % 8 == 7 => json!({ "type": NOOP, "run_at": "-009000-01-01T00:00:00Z" }),
        3 => json!({ "type": "no.such" }),
        _ => json!({ "type": NOOP, "payload": n, "queue": "many" }),
    });
    let sent = jobs.enumerate().map(|(n, job)| world.post(&keys[n % 2], "/jobs", job));
    for (n, answer) in join_all(sent).await.into_iter().enumerate() {
        if n % 8 == 7 {
            answer.refused(400, "JF001", "run_at_out_of_range");
            continue;
        } else if n % 4 == 3 {
            answer.refused(422, "JF002", "unknown_definition");
            continue;
        }
        let job = answer.expect(201);
        let path = format!("/jobs/{}", job["id"].as_str().unwrap());
        let job = world.get(&keys[n % 2], &path).await.expect(200);
        assert_eq!(job["payload"], n);
        assert!(job["created_by"].as_str().unwrap().contains(&keys[n % 2].id), "{job}");
        world.get(&keys[(n + 1) % 2], &path).await.expect(404);
    }
}

#[tokio::test]
async fn a_login_bound_to_one_tenant_enqueues_together_for_it_and_for_no_other() {
    let bound = |config: &mut ServerConfig| config.tenant_url = config.tenant_url.replace(APP, ONLY_A);
    let world = World::with(bound).await;
    let (own, foreign) = (world.key(Role::Producer).await, world.key_of_b(Role::Producer).await);
    let job = || json!({ "type": NOOP });
    let answers =
        join_all((0..JOBS).map(|n| world.post(if n % 4 == 3 { &foreign } else { &own }, "/jobs", job())));
    for (n, answer) in answers.await.into_iter().enumerate() {
        if n % 4 == 3 {
            answer.refused(403, "JF009", "login_not_bound");
        } else {
            answer.expect(201);
        }
    }
}

#[tokio::test]
async fn however_many_come_with_a_key_that_is_held_all_get_its_job() {
    let world = World::new().await;
    let key = world.key(Role::Producer).await;
    let mut application = world.db.as_app().await;
    let held = application.transaction().await.unwrap();
    let job = NewJob::new(NOOP, &1).unwrap().idempotency_key("one");
    let first = enqueue_job(&held, TENANT_A, &job).await.unwrap();
    let body = || json!({ "type": NOOP, "payload": 1, "idempotency_key": "one" });
    let callers = join_all((0..JOBS).map(|_| world.post(&key, "/jobs", body())));
    let commit = async {
        // Time for all of them to come and for whoever is refused to be told: nobody shall be.
        sleep(Duration::from_secs(1)).await;
        held.commit().await.unwrap();
    };
    let (answers, ()) = join(callers, commit).await;
    for answer in answers {
        let job = answer.expect(200);
        assert_eq!(
            (job["id"].as_str(), job["existing"].as_bool()),
            (Some(&*first.id.to_string()), Some(true))
        );
    }
}
