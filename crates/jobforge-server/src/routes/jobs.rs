//! Jobs, as their tenant sees them.

pub(crate) mod attempts;
pub(crate) mod cancel;
pub(crate) mod enqueue;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod redrive;
pub(crate) mod reschedule;
pub(crate) mod result;
pub(crate) mod retry;
pub(crate) mod summary;
pub(crate) mod tick;
pub(crate) mod wait;
