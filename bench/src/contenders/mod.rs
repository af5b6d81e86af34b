//! Who is measured. Each contender gets a database of its own, empty, for each pass, and does the same work in
//! its own documented way; the harness holds the watch.

mod graphile;
pub mod jobforge;
mod jobforge_server;
mod raw;

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::http::Served;
use crate::payload::Payload;
use crate::pickup::PickupPlan;

/// How many connections `enqueue_one` can be called on at the same time.
pub const SLOTS: usize = 10;

/// One job queue, driven through the interface its users have.
///
/// A pass is: `prepare`, then one or more phases of `connect`, work, `disconnect`. Costs are read between `connect`
/// and the work, and after `disconnect`, because a backend reports its transactions for certain only when it ends.
#[async_trait]
pub trait Contender: Send + Sync {
    /// The column heading, and the word `--contenders` takes.
    fn name(&self) -> &'static str;

    /// Everything that shapes the figures, one line each, printed and kept with the results.
    fn settings(&self) -> Vec<String>;

    /// Builds the schema in an empty database, and remembers where it is. Leaves no connection open.
    async fn prepare(&mut self, database_url: &str) -> Result<()>;

    /// Opens what enqueuing, draining and picking up need.
    async fn connect(&mut self) -> Result<()>;

    /// Closes all of it.
    async fn disconnect(&mut self) -> Result<()>;

    /// Enqueues one job, durable on return. Calls with different slots (below [`SLOTS`]) run at the same time, each
    /// on a connection of its own; a slot is never used twice at once.
    async fn enqueue_one(&self, slot: usize, payload: &Payload) -> Result<()>;

    /// Starts its HTTP server; `None` for those that have none. Concurrent enqueues share a commit, or each has one.
    async fn serve(&self, _gather: bool) -> Result<Option<Served>> {
        Ok(None)
    }

    /// The ways it can enqueue in bulk. The first is its best and stands in the ratios; the others are reported.
    fn bulk_methods(&self) -> &'static [&'static str];

    /// Enqueues many jobs on one connection, durable on return.
    async fn enqueue_bulk(&self, bulk: Bulk<'_>) -> Result<()>;

    /// Runs that many waiting no-op jobs with one worker in this process; the time from its start until the last
    /// job is durably finished. Fails if a job is left or lost.
    async fn drain(&self, jobs: usize) -> Result<Duration>;

    /// Runs a worker at default settings under a trickle of jobs (see [`crate::pickup`]); the time from the start of
    /// each enqueue to the start of its handler.
    async fn pickup(&self, plan: &PickupPlan) -> Result<Vec<Duration>>;

    /// The schema whose tables and indexes are what the contender leaves on disk.
    fn relations(&self) -> &'static str;
}

/// One call of [`Contender::enqueue_bulk`].
#[derive(Debug, Clone, Copy)]
pub struct Bulk<'a> {
    /// One of [`Contender::bulk_methods`].
    pub method: &'static str,
    pub jobs: usize,
    pub payload: &'a Payload,
}

/// All contenders. The first is the subject: the ratios are its figures over each other's.
pub fn all() -> Vec<Box<dyn Contender>> {
    vec![
        Box::new(jobforge::JobForge::default()),
        Box::new(raw::Raw::default()),
        Box::new(graphile::Graphile::default()),
    ]
}
