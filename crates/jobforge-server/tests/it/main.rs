//! The HTTP API on a real Postgres: what each route does, who may, and what is refused.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod admin;
mod admin_connectors;
mod admin_definitions;
mod admin_keys;
mod admin_looks;
mod admin_tenants;
mod auth;
mod auth_bootstrap;
mod auth_sessions;
mod auth_support;
mod auth_tokens;
mod demoted;
mod guard;
mod guard_tcp;
mod isolation;
mod jobs;
mod jobs_bulk;
mod jobs_cast;
mod jobs_dead;
mod jobs_list;
mod jobs_look;
mod jobs_operate;
mod jobs_rights;
mod jobs_tick;
mod jobs_wait;
mod openapi;
mod ungathered;
mod worker;
mod worker_agent;
mod worker_gather;
mod worker_poll;
mod worker_story;
mod worker_tenants;
mod world;
