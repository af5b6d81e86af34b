//! A small worker that knows nothing but HTTP.

use jobforge_core::Role;
use jobforge_testkit::{NOOP, QUEUE, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{Answer, Key, World};

/// A worker and the credential it calls with.
pub(crate) struct Agent<'a> {
    pub(crate) world: &'a World,
    pub(crate) key: Key,
    pub(crate) worker_id: String,
}

/// A job as a claim answered it.
#[derive(Clone, Debug)]
pub(crate) struct Held(pub(crate) Value);

impl Held {
    pub(crate) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    /// What names it in a batch.
    pub(crate) fn row(&self) -> Value {
        json!({ "tenant_id": self.0["tenant_id"], "id": self.0["id"], "fence": self.0["fence"] })
    }

    /// What names it in a report of its own, and what else that says.
    pub(crate) fn with(&self, more: &Value) -> Value {
        let mut body = json!({
            "lease_id": self.0["lease_id"], "tenant_id": self.0["tenant_id"], "fence": self.0["fence"],
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }
}

impl<'a> Agent<'a> {
    /// A registered worker with a key of its own: for one tenant, or for all.
    pub(crate) async fn new(world: &'a World, tenant: Option<Uuid>) -> Agent<'a> {
        let key = world.key_of(Role::Worker, tenant).await;
        Agent::with_key(world, key, "w").await
    }

    pub(crate) async fn of_all(world: &'a World) -> Agent<'a> {
        Agent::new(world, None).await
    }

    pub(crate) async fn of_a(world: &'a World) -> Agent<'a> {
        Agent::new(world, Some(TENANT_A)).await
    }

    pub(crate) async fn with_key(world: &'a World, key: Key, worker_id: &str) -> Agent<'a> {
        let agent = Agent { world, key, worker_id: worker_id.to_owned() };
        let body = json!({
            "worker_id": worker_id, "host": "here", "pid": 7, "version": "1", "queues": [QUEUE], "types": [NOOP],
            "slots": 2, "metadata": { "zone": "north" },
        });
        let answer = agent.post("/worker/register", body).await.expect(200);
        assert_eq!(answer, json!({ "worker_id": worker_id }));
        agent
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.world.post(&self.key, path, body).await
    }

    /// A claim of up to so many jobs, with whatever else it says.
    pub(crate) async fn try_claim(&self, limit: i32, more: Value) -> Answer {
        let mut body =
            json!({ "worker_id": self.worker_id, "queues": [QUEUE], "types": [NOOP], "limit": limit });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post("/worker/jobs/claim", body).await
    }

    pub(crate) async fn claim(&self, limit: i32) -> Vec<Held> {
        jobs(&self.try_claim(limit, json!({})).await.expect(200))
    }

    pub(crate) async fn claim_one(&self) -> Held {
        self.claim(1).await.pop().expect("there is a job")
    }

    /// A single report: `complete`, `fail`, `snooze` and the like.
    pub(crate) async fn report(&self, verb: &str, job: &Held, more: Value) -> Answer {
        self.post(&format!("/worker/jobs/{}/{verb}", job.id()), job.with(&more)).await
    }
}

pub(crate) fn jobs(claim: &Value) -> Vec<Held> {
    claim["jobs"].as_array().unwrap().iter().cloned().map(Held).collect()
}

/// Enqueues so many jobs for a tenant; returns their ids in order.
pub(crate) async fn enqueue(world: &World, tenant: Uuid, count: usize) -> Vec<String> {
    let key = world.key_of(Role::Producer, Some(tenant)).await;
    let many: Vec<Value> = (0..count).map(|n| json!({ "type": NOOP, "payload": { "n": n } })).collect();
    let answer = world.post(&key, "/jobs", json!(many)).await.expect(200);
    let ids = answer["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned());
    ids.collect()
}

/// The status of a job, as its tenant sees it.
pub(crate) async fn status(world: &World, tenant: Uuid, id: &str) -> String {
    let key = world.key_of(Role::TenantViewer, Some(tenant)).await;
    let job = world.get(&key, &format!("/jobs/{id}")).await.expect(200);
    job["status"].as_str().unwrap().to_owned()
}
