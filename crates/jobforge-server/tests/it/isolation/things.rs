//! What tenant A has, and how to see whether it is as it was.

use axum::http::Method;
use jobforge_core::Role;
use jobforge_testkit::{NOOP, QUEUE, TENANT_A};
use serde_json::json;
use uuid::Uuid;

use crate::world::{Key, World};

/// A word in A's payloads, tags and names that nobody else's answers may hold.
const MARK: &str = "canary-of-tenant-a";

/// Identifiers, of A's things or of none.
pub(crate) struct Ids {
    pub(crate) job: String,
    /// A job that runs, and the lease it is on.
    pub(crate) running: String,
    pub(crate) lease: String,
    pub(crate) bulk: String,
    pub(crate) tenant: String,
    pub(crate) key: String,
    pub(crate) connector: String,
}

/// A's things.
pub(crate) struct Things {
    pub(crate) ids: Ids,
}

impl Ids {
    /// A route with its subject in place.
    pub(crate) fn fill(&self, route: &str) -> String {
        let id = match route {
            _ if route.contains("/admin/keys/") => &self.key,
            _ if route.contains("/admin/tenants/") => &self.tenant,
            _ if route.contains("/worker/") => &self.running,
            _ if route.contains("/bulk/") => &self.bulk,
            _ => &self.job,
        };
        route.replace("{id}", id).replace("{name}", &self.connector)
    }

    /// An answer without the identifier that was asked for.
    pub(crate) fn neutral(&self, bytes: &[u8]) -> String {
        let ids =
            [&self.job, &self.running, &self.lease, &self.bulk, &self.tenant, &self.key, &self.connector];
        ids.into_iter().fold(String::from_utf8_lossy(bytes).into_owned(), |text, id| text.replace(id, "ID"))
    }
}

impl Things {
    pub(crate) async fn of_a(world: &World) -> Things {
        let admin = world.key(Role::TenantAdmin).await;
        let (running, lease) = run_one(world, &admin).await;
        let job =
            json!({ "type": NOOP, "payload": { "note": MARK }, "tags": [MARK], "correlation_id": MARK });
        let job = world.post(&admin, "/jobs", job).await.expect(201);
        let bulk = json!({ "kind": "cancel", "filter": { "tag": MARK }, "reason": MARK, "dry_run": true });
        let bulk = world.post(&admin, "/bulk", bulk).await.json();
        let connector = json!({ "settings": { "note": MARK }, "secrets": { "token": { "env": "A_TOKEN" } } });
        let path = format!("/admin/connectors/{MARK}");
        world.send(Some(&admin), Method::PUT, &path, Some(connector)).await.expect(200);
        let ids = Ids {
            job: job["id"].as_str().unwrap().to_owned(),
            running,
            lease,
            bulk: bulk["id"].as_str().unwrap().to_owned(),
            tenant: TENANT_A.to_string(),
            key: admin.id,
            connector: MARK.to_owned(),
        };
        Things { ids }
    }

    pub(crate) fn marks(&self) -> Vec<String> {
        let Ids { job, running, lease, bulk, tenant, key, .. } = &self.ids;
        [MARK, job, running, lease, bulk, tenant, key].map(str::to_owned).to_vec()
    }

    /// Everything of A's, as text.
    pub(crate) async fn state(&self, world: &World) -> String {
        let client = world.db.connect_super().await;
        let row = client
            .query_one(
                "select coalesce(string_agg(t.row, E'\\n' order by t.row), '') from (
                   select 'job ' || j::text as row from jobforge.jobs j where j.tenant_id = $1
                   union all select 'over ' || h::text from jobforge.job_history h where h.tenant_id = $1
                   union all select 'log ' || l::text from jobforge.job_logs l where l.tenant_id = $1
                   union all select 'progress ' || p::text from jobforge.job_progress p where p.tenant_id = $1
                   union all select 'exit ' || x::text from jobforge.attempt_exits x where x.tenant_id = $1
                   union all select 'bulk ' || b::text from jobforge.bulk_operations b where b.tenant_id = $1
                   union all select 'tenant ' || n::text from jobforge.tenants n where n.id = $1
                   union all select 'key ' || k::text from jobforge.api_keys k where k.tenant_id = $1
                   union all select 'connector ' || c::text from jobforge.connector_configs c where c.tenant_id = $1
                   union all select 'secret ' || s::text from jobforge.connector_secrets s where s.tenant_id = $1
                   union all select 'pause ' || p::text from jobforge.pauses p
                   union all select 'definition ' || d::text from jobforge.definitions d) as t",
                &[&TENANT_A],
            )
            .await
            .unwrap();
        row.get(0)
    }
}

/// A job of A's that a worker of A's runs, and the lease it is on.
async fn run_one(world: &World, admin: &Key) -> (String, String) {
    world.post(admin, "/jobs", json!({ "type": NOOP, "tags": [MARK] })).await.expect(201);
    let worker = world.key(Role::Worker).await;
    let own = json!({ "worker_id": "a", "host": "h", "version": "1", "queues": [QUEUE], "types": [NOOP], "slots": 1 });
    world.post(&worker, "/worker/register", own).await.expect(200);
    let claim =
        json!({ "worker_id": "a", "queues": [QUEUE], "types": [NOOP], "limit": 1, "lease_seconds": 600 });
    let claimed = world.post(&worker, "/worker/jobs/claim", claim).await.expect(200);
    let text = |name: &str| claimed["jobs"][0][name].as_str().unwrap().to_owned();
    (text("id"), text("lease_id"))
}

/// Identifiers of nothing.
pub(crate) fn unknown() -> Ids {
    Ids {
        job: Uuid::now_v7().to_string(),
        running: Uuid::now_v7().to_string(),
        lease: Uuid::new_v4().to_string(),
        bulk: Uuid::now_v7().to_string(),
        tenant: Uuid::now_v7().to_string(),
        key: "0123456789ab".to_owned(),
        connector: "nothing-of-anybody".to_owned(),
    }
}
