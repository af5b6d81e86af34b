//! What JobForge's tests stand on: a database per test on a real Postgres, a settable clock, two-session
//! stepping, a fault proxy, a RabbitMQ, a PgBouncer and named points where code can be held or made to fail.
//!
//! All test processes of a checkout share one Postgres (`run.rs` tells how it lives and dies). A test takes a
//! [`TestDb`]; a test that kills the server takes a [`PrivateCluster`].
//!
//! Everything here panics with a readable message when it cannot do its work: a test can do nothing
//! better with such an error. Roles belong to the whole Postgres, not to a database, so a test that
//! makes or changes a role needs a name of its own for it.

mod broker;
mod clock;
mod db;
mod fault_points;
mod installed;
mod issuer_key;
mod or_fail;
mod pooler;
mod private_cluster;
mod proxy;
mod run;
mod session;
mod shared_cluster;
mod template;
mod wire;

pub use broker::Broker;
pub use db::{TestDb, connect};
pub use fault_points::{FaultInjected, FaultPoints};
pub use installed::{
    APP, NOOP, ONLY_A, ONLY_B, OPERATOR, OTHER, PASSWORD, QUEUE, TENANT_A, TENANT_B, WORKER, WORKER_A,
};
pub use issuer_key::IssuerKey;
pub use pooler::Pooler;
pub use private_cluster::PrivateCluster;
pub use proxy::{ConnectionCounts, Direction, FaultProxy, Mode};
pub use run::run_dir;
pub use session::{Param, Running, Session};
