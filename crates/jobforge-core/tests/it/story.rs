//! The cast of most stories: an application, a worker, an operator, one database.

use jobforge_core::rpc::{claim_jobs, enqueue_job, register_worker};
use jobforge_core::{
    AttemptEnd, ClaimRequest, Claimed, ClaimedJob, Class, Code, Cursor, Enqueued, Error, Failure, JobRef,
    NewJob, Payload, Registration,
};
use jobforge_testkit::{NOOP, OTHER, QUEUE, TENANT_A, TestDb};
use tokio_postgres::Client;
use uuid::Uuid;

/// The worker that is registered from the start.
pub(crate) const W1: &str = "w1";

pub(crate) struct Story {
    pub(crate) db: TestDb,
    pub(crate) app: Client,
    pub(crate) worker: Client,
    pub(crate) operator: Client,
}

impl Story {
    pub(crate) async fn begin() -> Story {
        let db = TestDb::new().await;
        let (app, worker, operator) = (db.as_app().await, db.as_worker().await, db.as_operator().await);
        register_worker(&worker, &registration(W1)).await.unwrap();
        Story { db, app, worker, operator }
    }

    /// Enqueues a job of tenant A.
    pub(crate) async fn enqueue(&self, job: &NewJob) -> Enqueued {
        enqueue_job(&self.app, TENANT_A, job).await.unwrap()
    }

    /// Claims as `w1`, on a new lease.
    pub(crate) async fn claim(&self, limit: i32) -> Claimed {
        let (queues, types) = lanes();
        claim_jobs(&self.worker, &request(&queues, &types, limit, &Cursor::default())).await.unwrap()
    }

    /// Enqueues a job of tenant A and claims it.
    pub(crate) async fn running(&self) -> ClaimedJob {
        self.enqueue(&noop()).await;
        self.claim(1).await.jobs.remove(0)
    }
}

pub(crate) fn lanes() -> (Vec<String>, Vec<String>) {
    (vec![QUEUE.to_owned()], vec![NOOP.to_owned(), OTHER.to_owned()])
}

pub(crate) fn request<'a>(
    queues: &'a [String],
    types: &'a [String],
    limit: i32,
    cursor: &'a Cursor,
) -> ClaimRequest<'a> {
    ClaimRequest {
        worker_id: W1,
        queues,
        types,
        limit,
        free: limit,
        lease_id: None,
        new_lease_id: None,
        lease_seconds: 30,
        window: Some(limit),
        quick: false,
        cursor,
    }
}

pub(crate) fn registration(worker_id: &str) -> Registration {
    let (queues, types) = lanes();
    Registration {
        worker_id: worker_id.to_owned(),
        host: "testhost".to_owned(),
        pid: Some(1),
        version: "test".to_owned(),
        queues,
        types,
        slots: 10,
        metadata: Some(json("{\"zone\":\"a\"}")),
    }
}

pub(crate) fn json(text: &str) -> Payload {
    serde_json::value::RawValue::from_string(text.to_owned()).unwrap()
}

pub(crate) fn noop() -> NewJob {
    NewJob::raw(NOOP, json("{}"))
}

pub(crate) fn failure(job: JobRef, class: Class) -> Failure {
    Failure {
        job,
        class,
        error: "it broke".to_owned(),
        retry_after: None,
        end: AttemptEnd::Failed,
        exit_code: None,
        stdout_tail: None,
        stderr_tail: None,
    }
}

/// A job that never was.
pub(crate) fn unknown_job() -> JobRef {
    JobRef { tenant_id: TENANT_A, id: Uuid::now_v7(), fence: 1 }
}

/// The code and reason of a refusal.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (Code, String) {
    let error = result.unwrap_err();
    match (error.code(), error.reason()) {
        (Some(code), Some(reason)) => (code, reason.to_owned()),
        _ => panic!("not a refusal: {error:?}"),
    }
}
