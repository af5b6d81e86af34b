//! The HTTP API on a real Postgres: what each route does, who may, and what is refused.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod admin;
mod admin_connectors;
mod admin_definitions;
mod admin_keys;
mod admin_looks;
mod admin_tenants;
mod isolation;
mod jobs;
mod world;
