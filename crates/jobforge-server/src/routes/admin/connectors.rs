//! A tenant's connector configs. Secrets come in and never go out, sealed or not.

pub(crate) mod delete;
pub(crate) mod enable;
pub(crate) mod get;
mod input;
pub(crate) mod list;
pub(crate) mod upsert;
