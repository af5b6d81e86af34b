//! Stories of the connectors: real servers, real connections, a real worker on a real Postgres.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod egress;
mod http;
mod server;
mod story;
mod webhook;
