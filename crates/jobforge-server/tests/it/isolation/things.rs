//! What tenant A has, and how to see whether it is as it was.

use axum::http::Method;
use jobforge_core::Role;
use jobforge_testkit::{NOOP, TENANT_A};
use serde_json::json;
use uuid::Uuid;

use crate::world::World;

/// A word in A's payloads, tags and names that nobody else's answers may hold.
const MARK: &str = "canary-of-tenant-a";

/// Identifiers, of A's things or of none.
pub(crate) struct Ids {
    pub(crate) job: String,
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
            _ => &self.job,
        };
        route.replace("{id}", id).replace("{name}", &self.connector)
    }

    /// An answer without the identifier that was asked for.
    pub(crate) fn neutral(&self, bytes: &[u8]) -> String {
        let ids = [&self.job, &self.tenant, &self.key, &self.connector];
        ids.into_iter().fold(String::from_utf8_lossy(bytes).into_owned(), |text, id| text.replace(id, "ID"))
    }
}

impl Things {
    pub(crate) async fn of_a(world: &World) -> Things {
        let admin = world.key(Role::TenantAdmin).await;
        let job =
            json!({ "type": NOOP, "payload": { "note": MARK }, "tags": [MARK], "correlation_id": MARK });
        let job = world.post(&admin, "/jobs", job).await.expect(201);
        let connector = json!({ "settings": { "note": MARK }, "secrets": { "token": { "env": "A_TOKEN" } } });
        let path = format!("/admin/connectors/{MARK}");
        world.send(Some(&admin), Method::PUT, &path, Some(connector)).await.expect(200);
        let ids = Ids {
            job: job["id"].as_str().unwrap().to_owned(),
            tenant: TENANT_A.to_string(),
            key: admin.id,
            connector: MARK.to_owned(),
        };
        Things { ids }
    }

    pub(crate) fn marks(&self) -> Vec<String> {
        vec![MARK.to_owned(), self.ids.job.clone(), self.ids.key.clone(), TENANT_A.to_string()]
    }

    /// Everything of A's, as text.
    pub(crate) async fn state(&self, world: &World) -> String {
        let client = world.db.connect_super().await;
        let row = client
            .query_one(
                "select coalesce(string_agg(t.row, E'\\n' order by t.row), '') from (
                   select 'job ' || j::text as row from jobforge.jobs j where j.tenant_id = $1
                   union all select 'over ' || h::text from jobforge.job_history h where h.tenant_id = $1
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

/// Identifiers of nothing.
pub(crate) fn unknown() -> Ids {
    Ids {
        job: Uuid::now_v7().to_string(),
        tenant: Uuid::now_v7().to_string(),
        key: "0123456789ab".to_owned(),
        connector: "nothing-of-anybody".to_owned(),
    }
}
