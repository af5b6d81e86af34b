//! The HTTP API: what the SQL functions can do, reachable per credential.
//!
//! - `router.rs`: every route on one screen; `routes/`: one file per verb
//! - `auth/`: who calls, what that role may, for which tenant
//! - `waiters.rs`: requests that wait for jobs, one question for all; `bulks.rs`: operations driven to their end
//! - `gather/`: concurrent enqueues and workers' reports written together
//! - `wake.rs`: long polls woken when there is work
//! - `rules.rs`: the definitions' schemas, compiled once
//! - `sealer.rs`: who seals secrets on their way to the database
//! - `problem.rs`: every refusal, as RFC 9457 tells it
//! - `db.rs`: connections lent to requests; `outage.rs`: what is known while there are none
//! - `opening.rs`: the first look at the database, which may be away
//! - `guard.rs`, `serve.rs`, `stall.rs`, `unread.rs`, `json_bounds.rs`: what a caller may not do to the server
//! - `upkeep.rs`: what goes on between requests
//!
//! The database decides, this crate calls: a request becomes one call of a function, as a login that may do no
//! more than the credential's role needs. The tenant comes from the credential alone.

mod app;
pub mod auth;
mod bulks;
mod change;
mod config;
mod cursor;
mod db;
mod extract;
mod gather;
mod guard;
mod json_bounds;
mod openapi;
mod opening;
mod outage;
mod problem;
mod router;
mod routes;
mod rules;
mod sealer;
mod serve;
mod stall;
mod tick;
mod unread;
mod upkeep;
mod waiters;
mod wake;

pub use config::{ConnectionLimits, RateLimits, ServerConfig};
pub use openapi::document;
pub use problem::{ErrorCode, Problem};
pub use sealer::{SealError, SealPlace, Sealer};
pub use serve::{Server, ServerHandle, StartError};
pub use tick::{Tick, TickError, Ticked};
