//! Two sessions in a race, one story per rule: each goes red when its rule is broken.
//!
//! Nothing here waits for time to pass. A story moves the clock, holds a transaction open, or starts a statement
//! and goes on once the server says that it waits for a lock.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

mod artifacts;
mod batches;
mod claims;
mod concurrency_keys;
mod deaths;
mod fairness;
mod give_back;
mod keys;
mod late;
mod left;
mod limits;
mod limits_set;
mod locks;
mod numbers;
mod one_job;
mod outages;
mod partitions;
mod pauses;
mod pending;
mod places;
mod quick;
mod rates;
mod settle;
mod sleep;
pub(crate) mod stage;
mod two_operators;
mod unheard;
mod weights;
