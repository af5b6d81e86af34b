//! Whoever brings jobs into the states that the stories need: an application and a worker beside the server.

use axum::body::Body;
use axum::http::{Method, Request};
use jobforge_core::rpc::{claim_jobs, complete_job, enqueue_job, fail_job, register_worker};
use jobforge_core::{
    AttemptEnd, ClaimRequest, ClaimedJob, Class, Cursor, Failure, NewJob, Payload, Registration, Role,
};
use jobforge_testkit::{NOOP, OTHER, QUEUE, TENANT_A};
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::world::{Answer, Key, World};

const WORKER: &str = "w1";

/// A server, an operator's key of tenant A, an application and a worker.
pub(crate) struct Cast {
    pub(crate) world: World,
    pub(crate) admin: Key,
    pub(crate) app: Client,
    pub(crate) worker: Client,
}

impl Cast {
    pub(crate) async fn new() -> Cast {
        Cast::of(World::new().await).await
    }

    pub(crate) async fn of(world: World) -> Cast {
        let admin = world.key(Role::TenantAdmin).await;
        let (app, worker) = (world.db.as_app().await, world.db.as_worker().await);
        let registration = Registration {
            worker_id: WORKER.to_owned(),
            host: "testhost".to_owned(),
            pid: Some(1),
            version: "test".to_owned(),
            queues: vec![QUEUE.to_owned()],
            types: vec![NOOP.to_owned(), OTHER.to_owned()],
            slots: 10,
            metadata: None,
        };
        register_worker(&worker, &registration).await.unwrap();
        Cast { world, admin, app, worker }
    }

    /// A waiting job of tenant A.
    pub(crate) async fn queued(&self) -> Uuid {
        self.made(NewJob::raw(NOOP, raw(&json!({})))).await
    }

    pub(crate) async fn made(&self, job: NewJob) -> Uuid {
        enqueue_job(&self.app, TENANT_A, &job).await.unwrap().id
    }

    /// Claims whatever is due, up to a thousand.
    pub(crate) async fn claim(&self) -> Vec<ClaimedJob> {
        let (queues, types) = ([QUEUE.to_owned()], [NOOP.to_owned(), OTHER.to_owned()]);
        let request = ClaimRequest {
            worker_id: WORKER,
            queues: &queues,
            types: &types,
            limit: 1000,
            free: 1000,
            lease_id: None,
            new_lease_id: None,
            lease_seconds: 600,
            window: Some(1000),
            quick: false,
            cursor: &Cursor::default(),
        };
        claim_jobs(&self.worker, &request).await.unwrap().jobs
    }

    /// A running job of tenant A.
    pub(crate) async fn running(&self) -> ClaimedJob {
        self.queued().await;
        self.claim().await.remove(0)
    }

    pub(crate) async fn complete(&self, job: &ClaimedJob, result: Option<Payload>) {
        complete_job(&self.worker, job.lease_id, job.job, result.as_ref()).await.unwrap();
    }

    /// The attempt fails for good: the job is a dead letter.
    pub(crate) async fn fail(&self, job: &ClaimedJob, error: &str) {
        let failure = Failure {
            job: job.job,
            class: Class::Permanent,
            error: error.to_owned(),
            retry_after: None,
            end: AttemptEnd::Failed,
            exit_code: None,
            stdout_tail: None,
            stderr_tail: None,
        };
        fail_job(&self.worker, job.lease_id, &failure).await.unwrap();
    }

    /// Dead letters of tenant A, in the order in which they died.
    pub(crate) async fn dead(&self, errors: &[&str]) -> Vec<Uuid> {
        for _ in errors {
            self.queued().await;
        }
        let jobs = self.claim().await;
        for (job, error) in jobs.iter().zip(errors) {
            self.fail(job, error).await;
        }
        jobs.iter().map(|job| job.job.id).collect()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.world.get(&self.admin, path).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.world.post(&self.admin, path, body).await
    }

    /// A POST without a body.
    pub(crate) async fn post_nothing(&self, path: &str) -> Answer {
        self.world.send(Some(&self.admin), Method::POST, path, None).await
    }

    pub(crate) async fn status(&self, id: Uuid) -> String {
        self.get(&format!("/jobs/{id}")).await.expect(200)["status"].as_str().unwrap().to_owned()
    }

    /// A GET with one more header.
    pub(crate) async fn get_with(&self, path: &str, name: &str, value: &str) -> Answer {
        let request = Request::get(format!("/api/v1{path}"))
            .header("authorization", format!("Bearer {}", self.admin.text))
            .header(name, value);
        self.world.request(request.body(Body::empty()).unwrap()).await
    }
}

/// JSON as its text.
pub(crate) fn raw(value: &Value) -> Payload {
    serde_json::value::to_raw_value(value).unwrap()
}

/// Names of what a list answered, in its order.
pub(crate) fn ids(list: &Value) -> Vec<Uuid> {
    let id = |row: &Value| row["id"].as_str().unwrap().parse().unwrap();
    list.as_array().unwrap().iter().map(id).collect()
}
