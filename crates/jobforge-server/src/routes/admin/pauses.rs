//! Pauses: a queue, a tenant or a definition is held back, and goes on.

pub(crate) mod list;
pub(crate) mod pause;
pub(crate) mod resume;
