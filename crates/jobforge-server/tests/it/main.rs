//! The HTTP API on a real Postgres: what each route does, who may, and what is refused.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod auth;
mod auth_bootstrap;
mod auth_sessions;
mod auth_support;
mod auth_tokens;
mod guard;
mod guard_tcp;
mod isolation;
mod jobs;
mod world;
