//! Concurrent requests written together.
//!
//! While one batch is on its way to the database, what arrives waits and becomes the next one: a request alone is
//! written at once, many share a commit. Each caller is answered after its commit, with its own error if its
//! row was bad.
//!
//! - `lanes.rs`: the batches; `enqueue.rs`: enqueues, those with keys apart; `reports.rs`:
//!   workers' reports; `held.rs`: who waits for somebody's lock waits apart

mod enqueue;
mod held;
mod lanes;
mod reports;

pub(crate) use enqueue::{Enqueues, refused};
pub(crate) use reports::{End, Report, Reports};
