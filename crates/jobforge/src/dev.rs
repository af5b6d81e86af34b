//! What `jobforge dev` is made of; `commands/dev.rs` tells the story.
//!
//! - `home.rs`: the directory everything lives in, its lock and its files
//! - `logins.rs`: the logins and their passwords, kept in a file
//! - `server.rs`: the Postgres, private or given; `binaries.rs`: those of a private one
//! - `roles.rs`: the roles, the database, the demo tenant
//! - `api.rs`, `keys.rs`, `tick.rs`: the HTTP API, the keys to it, due jobs run by a request
//! - `mix.rs`: the demo jobs that keep it lively
//! - `summary.rs`: the line that tells what goes on; `welcome.rs`: what is told when everything runs

pub(crate) mod api;
pub(crate) mod binaries;
pub(crate) mod home;
pub(crate) mod keys;
pub(crate) mod logins;
pub(crate) mod mix;
pub(crate) mod roles;
pub(crate) mod server;
pub(crate) mod summary;
pub(crate) mod tick;
pub(crate) mod welcome;
