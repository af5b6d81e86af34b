//! A server that does not gather: every enqueue has a transaction of its own.

use futures_util::future::join_all;
use jobforge_core::Role;
use jobforge_testkit::NOOP;
use serde_json::json;

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
