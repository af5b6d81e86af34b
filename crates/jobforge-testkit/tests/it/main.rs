//! The test kit itself, on a real Postgres.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod clock;
mod database;
mod fault_points;
mod private_cluster;
mod proxy;
mod session;
mod watchdog;
