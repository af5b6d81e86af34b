//! What a worker does without code.
//!
//! - [`command`]: programs as jobs
//! - [`egress`]: the one client for everything outbound
//! - [`http`], [`webhook`]: the connectors that use it; [`register`] adds them to a worker
//! - [`report`], [`qr`]: what is made from a payload alone, or from the tenant's own jobs
//! - [`configs`]: what tenants set up for connectors, secrets included
//! - [`connectors`]: the job types, as the database should know them

pub mod command;
pub mod configs;
pub mod egress;
pub mod http;
pub mod qr;
pub mod report;
pub mod webhook;

mod answer;
mod catalogue;
mod failure;
mod generators;
mod outgoing;
mod retry_after;
mod schema;
mod tools;

pub use catalogue::{Connector, connectors};
pub use generators::register_generators;
pub use tools::register;
