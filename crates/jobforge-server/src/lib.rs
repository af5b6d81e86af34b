//! The HTTP API: what the SQL functions can do, reachable per credential.
//!
//! - `router.rs`: every route on one screen; `routes/`: one file per verb
//! - `auth/`: who calls, what that role may, for which tenant
//! - `waiters.rs`: requests that wait for jobs, one question for all; `bulks.rs`: operations driven to their end
//! - `gather/`: concurrent enqueues and workers' reports written together
//! - `wake.rs`: long polls woken when there is work
//! - `rows.rs`: the rows of a batch, of which a bad one harms no other
//! - `rules.rs`: the definitions' schemas, compiled once
//! - `sealer.rs`: who seals secrets on their way to the database
//! - `broker_check.rs`: the broker, where the server is not ready without it
//! - `problem.rs`: every refusal, as RFC 9457 tells it
//! - `db.rs`, `shares.rs`: the pools of connections, and that one tenant does not take them all; `lent.rs`: a connection
//!   lent to one request, and the limit of each call; `outage.rs`: what is known while there are none
//! - `opening.rs`: the first look at the database, which may be away
//! - `held_bodies.rs`: how much memory bodies take up at once
//! - `guard.rs`, `serve.rs`, `stall.rs`, `linger.rs`, `unread.rs`, `json_bounds.rs`: what a caller may
//!   not do to the server, and how it is told
//! - `upkeep.rs`: what goes on between requests
//!
//! The database decides, this crate calls: a request becomes one call of a function, as a login that may do no
//! more than the credential's role needs. The tenant comes from the credential alone.

mod app;
pub mod auth;
mod broker_check;
mod bulks;
mod change;
mod config;
mod cursor;
mod db;
mod etag;
mod extract;
mod gather;
mod guard;
mod held_bodies;
mod json_bounds;
mod lent;
mod linger;
mod openapi;
mod opening;
mod outage;
mod problem;
mod router;
mod routes;
mod rows;
mod rules;
mod sealer;
mod serve;
mod shares;
mod stall;
mod tick;
mod unread;
mod upkeep;
mod waiters;
mod wake;

pub use broker_check::{BrokerAnswer, BrokerCheck};
pub use config::{CallerLimits, RateLimits, ServerConfig};
pub use openapi::document;
pub use problem::{ErrorCode, Problem};
pub use sealer::{SealError, SealPlace, Sealer};
pub use serve::{Server, ServerHandle, StartError};
pub use tick::{Tick, TickError, Ticked};
