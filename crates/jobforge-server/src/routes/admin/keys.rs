//! API keys: an operator's are all of them, an administrator's those of its tenant.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod revoke;
