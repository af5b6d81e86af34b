//! Jobs that wait for somebody to look at them.

pub(crate) mod groups;
pub(crate) mod list;
