//! What runs due jobs inside a server, in development.

use std::error::Error as StdError;
use std::fmt;

use futures_util::future::BoxFuture;
use serde::Serialize;
use utoipa::ToSchema;

/// Why due jobs could not be run.
pub type TickError = Box<dyn StdError + Send + Sync>;

/// Runs due jobs when it is asked to. This crate has no worker of its own: whoever starts the server lends it one.
pub trait Tick: fmt::Debug + Send + Sync {
    /// Runs at most `limit` due jobs, of all tenants that its login may work for, and tells what became of them.
    fn run_due(&self, limit: usize) -> BoxFuture<'_, Result<Ticked, TickError>>;
}

/// What became of the jobs of one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Ticked {
    /// Taken.
    pub claimed: u64,
    /// Ended well.
    pub completed: u64,
    /// Failed, to be tried again or not.
    pub failed: u64,
    /// Put off by their handlers.
    pub snoozed: u64,
    /// Given back.
    pub released: u64,
}
