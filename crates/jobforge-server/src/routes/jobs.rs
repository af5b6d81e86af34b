//! Jobs, as their tenant sees them.

pub(crate) mod enqueue;
pub(crate) mod get;
pub(crate) mod list;
