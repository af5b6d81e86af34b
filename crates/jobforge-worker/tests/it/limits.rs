//! Workers under limits: what their handlers see is what counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobforge_testkit::{NOOP, TENANT_A};
use jobforge_worker::{Context, Outcome, WorkerConfig};
use serde_json::Value;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{Story, echo, eventually};

/// How many handlers run, and the most that ever did.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Story {
    async fn limit_tenant(&self, set: &str) {
        let sql = format!("select jobforge.upsert_tenant('{TENANT_A}', {set})");
        self.operator.batch_execute(&sql).await.unwrap();
    }

    async fn all_succeeded(&self, ids: &[Uuid]) {
        eventually("all jobs have succeeded", async || {
            let sql = "select count(*) from jobforge.job_history where status = 'succeeded'";
            let done = self.count(sql).await;
            (usize::try_from(done).unwrap() == ids.len()).then_some(())
        })
        .await;
    }
}

/// Three run while nothing lets them go on; each that goes on lets one follow.
#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_run_as_many_of_a_tenant_as_its_limit_allows() {
    let story = Story::begin().await;
    story.limit_tenant("p_max_in_flight => 3").await;
    let ids = story.enqueue_numbers(60).await;
    let (gauge, go_on) = (Arc::new(Gauge::default()), Arc::new(Semaphore::new(0)));
    let mut workers = Vec::new();
    for _ in 0..8 {
        let (gauge, go_on) = (gauge.clone(), go_on.clone());
        let handler = move |_: Context, _: Value| {
            let (gauge, go_on) = (gauge.clone(), go_on.clone());
            async move {
                gauge.enter();
                if let Ok(permit) = go_on.acquire().await {
                    permit.forget();
                }
                gauge.leave();
                Ok(Outcome::Complete(None))
            }
        };
        workers.push(story.work(story.config(), handler).await);
    }
    eventually("three run", async || (gauge.now.load(Ordering::SeqCst) == 3).then_some(())).await;
    go_on.add_permits(ids.len());
    story.all_succeeded(&ids).await;
    assert_eq!(gauge.most.load(Ordering::SeqCst), 3);
    for worker in workers {
        worker.shutdown().await;
    }
}

/// With a limit of one each job waits for the end of the one before it: by looks alone, up to a second apart, two
/// hundred of them outlast everybody's patience.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_job_starts_the_next_one() {
    let story = Story::begin().await;
    story.limit_tenant("p_max_in_flight => 1").await;
    let ids = story.enqueue_numbers(200).await;
    let worker = story.work(story.config(), echo).await;
    story.all_succeeded(&ids).await;
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definitions_rate_is_kept_by_two_workers() {
    let story = Story::begin().await;
    let sql = format!("select jobforge.upsert_definition('{NOOP}', p_rate_per_second => 20)");
    story.operator.batch_execute(&sql).await.unwrap();
    let ids = story.enqueue_numbers(60).await;
    let config = || WorkerConfig { slots: 16, ..story.config() };
    let workers = [story.work(config(), echo).await, story.work(config(), echo).await];
    story.all_succeeded(&ids).await;
    // By the database's account: three at once, the rest one each 50 ms, never earlier.
    let sql = "select (extract(epoch from max(started_at) - min(started_at)) * 1000)::bigint from jobforge.job_history";
    let took = story.count(sql).await;
    assert!(took >= 2849, "60 jobs at 20 a second started within {took} ms");
    for worker in workers {
        worker.shutdown().await;
    }
}
