//! What operators and tenants' administrators set up, and what they look at.
//!
//! - `definitions/`, `tenants/`, `pauses/`: operators' business; definitions are read by whoever reads
//! - `keys/`, `connectors/`: a tenant's own, and operators'
//! - `queues.rs`, `workers.rs`, `system.rs`, `series.rs`: the whole, for operators
//! - `audit.rs`: who did what
//! - `page.rs`, `change.rs`: how lists are paged; how a change says keep, set and take away

pub(crate) mod audit;
mod change;
pub(crate) mod connectors;
pub(crate) mod definitions;
pub(crate) mod keys;
mod page;
pub(crate) mod pauses;
pub(crate) mod queues;
pub(crate) mod series;
pub(crate) mod system;
pub(crate) mod tenants;
pub(crate) mod workers;
