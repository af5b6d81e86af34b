//! A store that answers no deletion keeps the leader from nothing but its deletions.

use std::future::ready;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jobforge_core::rpc::{claim_jobs, enqueue_job};
use jobforge_core::{Artifact, ArtifactError, ArtifactId, ArtifactRef, Artifacts, NewJob};
use jobforge_scheduler::SchedulerConfig;
use jobforge_testkit::{FaultPoints, NOOP, TENANT_A, TestDb};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{Claims, config, start};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ArtifactError>> + Send + 'a>>;

/// Holds deletions at the point `delete`; tells when one was given up.
#[derive(Debug)]
struct Hanging {
    points: FaultPoints,
    given_up: watch::Sender<bool>,
}

/// Dropped before the deletion ended.
struct Patience<'a>(Option<&'a watch::Sender<bool>>);

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        if let Some(given_up) = self.0 {
            given_up.send_replace(true);
        }
    }
}

impl Artifacts for Hanging {
    fn threshold(&self) -> usize {
        1 << 20
    }

    fn put(&self, _: Uuid, artifact: Artifact) -> Answer<'_, ()> {
        Box::pin(async move { Err(ArtifactError::Missing { id: artifact.reference().id() }) })
    }

    fn get(&self, _: Uuid, artifact: ArtifactRef) -> Answer<'_, Bytes> {
        Box::pin(async move { Err(ArtifactError::Missing { id: artifact.id() }) })
    }

    fn delete(&self, _: Uuid, _: ArtifactId) -> Answer<'_, ()> {
        Box::pin(async {
            let mut patience = Patience(Some(&self.given_up));
            self.points.hit("delete").await.unwrap();
            patience.0 = None;
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_lease_that_runs_out_is_reaped_while_the_store_hangs() {
    let db = TestDb::new().await;
    let admin = db.connect_super().await;
    let orphan = "insert into jobforge.artifacts (tenant_id, ref, announced_at, collect_at)
                  values ($1, 'sha256:' || repeat('0', 64), now() - interval '2 days', now() - interval '1 day')";
    admin.execute(orphan, &[&TENANT_A]).await.unwrap();
    let id = enqueue_job(&db.as_app().await, TENANT_A, &NewJob::new(NOOP, &1).unwrap()).await.unwrap().id;
    let claims = Claims::of("lost:1:boot");
    let worker = db.as_worker().await;
    claims.register(&worker).await;
    assert_eq!(claim_jobs(&worker, &claims.request(600)).await.unwrap().jobs.len(), 1);

    let (points, given_up) = (FaultPoints::new(), watch::Sender::new(false));
    points.pause("delete");
    let store = Hanging { points: points.clone(), given_up: given_up.clone() };
    let scheduler =
        start(SchedulerConfig { artifacts: Some(Arc::new(store)), ..config(&db, "collector") }).await;
    points.wait_reached("delete").await;
    let lapse = "update jobforge.leases set expires_at = clock_timestamp() - interval '1 second'";
    assert_eq!(admin.execute(lapse, &[]).await.unwrap(), 1);
    let back = "select status = 'queued' and deaths = 1 from jobforge.jobs where id = $1";
    while !admin.query_one(back, &[&id]).await.unwrap().get::<_, bool>(0) {
        assert!(!*given_up.borrow(), "the reaper waited for the store");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!*given_up.borrow(), "the reaper waited for the store");

    {
        let mut settled = pin!(scheduler.settled());
        tokio::select! {
            biased;
            () = &mut settled => panic!("settled, though nothing was collected"),
            () = ready(()) => {}
        }
        points.resume("delete");
        settled.await;
    }
    scheduler.shutdown().await;
    let known: i64 = admin.query_one("select count(*) from jobforge.artifacts", &[]).await.unwrap().get(0);
    assert_eq!(known, 0);
}
