//! JobForge as it stands after an installation: the schema by its own migrations, two tenants, two job
//! types, and a login of every kind.

use std::hash::{DefaultHasher, Hash, Hasher};

use jobforge_core::{Definition, Tenant, migrate, rpc};
use tokio_postgres::Client;
use uuid::{Uuid, uuid};

use crate::db::{TestDb, connect};
use crate::or_fail::OrFail;

/// A tenant of the tests.
pub const TENANT_A: Uuid = uuid!("11111111-1111-1111-1111-111111111111");
/// Another one.
pub const TENANT_B: Uuid = uuid!("22222222-2222-2222-2222-222222222222");

/// The type of most test jobs, with the defaults of definitions.
pub const NOOP: &str = "test.noop";
/// Another one, of the same queue.
pub const OTHER: &str = "test.other";
/// The queue of both.
pub const QUEUE: &str = "default";

/// An application's backend, trusted to name any tenant.
pub const APP: &str = "jf_test_app";
/// A tenant's login that acts for A alone.
pub const ONLY_A: &str = "jf_test_tenant_a";
/// A tenant's login that acts for B alone.
pub const ONLY_B: &str = "jf_test_tenant_b";
/// A worker for every tenant.
pub const WORKER: &str = "jf_test_worker";
/// A worker for A alone.
pub const WORKER_A: &str = "jf_test_worker_a";
/// An operator for every tenant.
pub const OPERATOR: &str = "jf_test_operator";
/// The password of every login, for those who come over TCP.
pub const PASSWORD: &str = "jobforge";

/// The logins, the role each is a member of, and the tenant it is bound to. They belong to the whole
/// server and are the same for every database of it.
const LOGINS: [(&str, &str, Option<Uuid>); 6] = [
    (APP, "jf_tenant", None),
    (ONLY_A, "jf_tenant", Some(TENANT_A)),
    (ONLY_B, "jf_tenant", Some(TENANT_B)),
    (WORKER, "jf_worker", None),
    (WORKER_A, "jf_worker", Some(TENANT_A)),
    (OPERATOR, "jf_operator", None),
];

impl TestDb {
    /// A database with the schema, tenants A and B, the types [`NOOP`] and [`OTHER`], and the logins.
    pub async fn new() -> TestDb {
        // This file is part of it too: what it puts beside the schema may change alone.
        let mut hasher = DefaultHasher::new();
        (migrate::schema_hash(), include_str!("installed.rs")).hash(&mut hasher);
        TestDb::from_template(&format!("installed_{:016x}", hasher.finish()), install).await
    }

    /// A connection as [`APP`].
    pub async fn as_app(&self) -> Client {
        self.connect_as(APP).await
    }

    /// A connection as [`ONLY_A`].
    pub async fn as_tenant_a(&self) -> Client {
        self.connect_as(ONLY_A).await
    }

    /// A connection as [`ONLY_B`].
    pub async fn as_tenant_b(&self) -> Client {
        self.connect_as(ONLY_B).await
    }

    /// A connection as [`WORKER`].
    pub async fn as_worker(&self) -> Client {
        self.connect_as(WORKER).await
    }

    /// A connection as [`WORKER_A`].
    pub async fn as_worker_a(&self) -> Client {
        self.connect_as(WORKER_A).await
    }

    /// A connection as [`OPERATOR`].
    pub async fn as_operator(&self) -> Client {
        self.connect_as(OPERATOR).await
    }

    /// A connection as any login.
    pub async fn connect_as(&self, login: &str) -> Client {
        connect(&self.url_as(login, None)).await
    }
}

/// Makes an installation of an empty database.
async fn install(url: &str) {
    migrate::up(url).await.or_fail("migrate a test database");
    let admin = connect(url).await;
    for (login, role, tenant) in LOGINS {
        admin.batch_execute(&login_sql(login, role)).await.or_fail("make a login of the tests");
        rpc::bind_login(&admin, login, tenant).await.or_fail("bind a login of the tests");
    }
    for (tenant, name) in [(TENANT_A, "A"), (TENANT_B, "B")] {
        rpc::upsert_tenant(&admin, &Tenant::named(tenant, name)).await.or_fail("make a tenant of the tests");
    }
    for key in [NOOP, OTHER] {
        rpc::upsert_definition(&admin, &Definition::new(key)).await.or_fail("make a job type of the tests");
    }
}

/// Another process may make the same role at the same moment from another database: losing that race is as
/// good as winning it.
fn login_sql(login: &str, role: &str) -> String {
    format!(
        "do $$ begin
           if not exists (select from pg_roles where rolname = '{login}') then
             create role {login} login password '{PASSWORD}';
           end if;
         exception when duplicate_object or unique_violation then null;
         end $$;
         do $$ begin
           if not pg_has_role('{login}', '{role}', 'member') then
             grant {role} to {login};
           end if;
         exception when unique_violation or internal_error then null;
         end $$;"
    )
}
