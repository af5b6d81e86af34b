//! What tenant A has, and how to see whether it is as it was.

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
}

/// A's things.
pub(crate) struct Things {
    pub(crate) ids: Ids,
}

impl Ids {
    /// A route with its subject in place.
    pub(crate) fn fill(&self, route: &str) -> String {
        route.replace("{id}", &self.job)
    }

    /// An answer without the identifier that was asked for.
    pub(crate) fn neutral(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace(&self.job, "ID")
    }
}

impl Things {
    pub(crate) async fn of_a(world: &World) -> Things {
        let admin = world.key(Role::TenantAdmin).await;
        let job =
            json!({ "type": NOOP, "payload": { "note": MARK }, "tags": [MARK], "correlation_id": MARK });
        let job = world.post(&admin, "/jobs", job).await.expect(201);
        Things { ids: Ids { job: job["id"].as_str().unwrap().to_owned() } }
    }

    pub(crate) fn marks(&self) -> Vec<String> {
        vec![MARK.to_owned(), self.ids.job.clone(), TENANT_A.to_string()]
    }

    /// Everything of A's, as text.
    pub(crate) async fn state(&self, world: &World) -> String {
        let client = world.db.connect_super().await;
        let row = client
            .query_one(
                "select coalesce(string_agg(t.row, E'\\n' order by t.row), '') from (
                   select 'job ' || j::text as row from jobforge.jobs j where j.tenant_id = $1
                   union all select 'over ' || h::text from jobforge.job_history h where h.tenant_id = $1) as t",
                &[&TENANT_A],
            )
            .await
            .unwrap();
        row.get(0)
    }
}

/// Identifiers of nothing.
pub(crate) fn unknown() -> Ids {
    Ids { job: Uuid::now_v7().to_string() }
}
