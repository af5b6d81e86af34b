//! A private Postgres: find the server's binaries, initialise a cluster, start it, reuse it, stop it.
//!
//! `jobforge dev`, the test kit and the bench all need a Postgres that nobody has to set up by hand.
//! This crate runs one from binaries that are already on the machine, also when the caller is root
//! (Postgres refuses to run as root, so the server runs as another user).
//!
//! Everything here blocks: a start takes about a second once and a tenth of a second later on. Async
//! callers wrap it in `spawn_blocking`.
//!
//! What is absent on purpose: downloading Postgres, reading environment variables (the caller passes
//! `PATH` in [`Search`]), and speaking SQL.

mod address;
mod binaries;
mod cluster;
mod error;
mod home;
mod initdb;
mod launch;
mod postmaster;
mod server_user;
mod settings;

pub use address::Address;
pub use binaries::{Binaries, OLDEST_MAJOR, Search, Version, find_binaries};
pub use cluster::Cluster;
pub use error::Error;
pub use settings::{Durability, Settings};
