//! The web page's sessions.

pub(crate) mod create;
pub(crate) mod end;
pub(crate) mod get;
