//! The HTTP API on a real Postgres: what each route does, who may, and what is refused.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod jobs;
mod openapi;
mod ungathered;
mod world;
