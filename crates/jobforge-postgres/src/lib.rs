//! A private Postgres: find the server's binaries, initialise a cluster, start it, reuse it, stop it.
//!
//! `jobforge dev`, the test kit and the bench all need a Postgres that nobody has to set up by hand.
//! This crate runs one from binaries that are on the machine, or that [`Package`] fetches when it is asked to, also when
//! the caller is root (Postgres refuses to run as root, so the server runs as another user).
//!
//! Everything here blocks: a start takes about a second once and a tenth of a second later on. Async
//! callers wrap it in `spawn_blocking`.
//!
//! What is absent on purpose: an HTTP client, reading environment variables (the caller passes
//! `PATH` and `HOME` to [`Search`]), and speaking SQL.

mod address;
mod binaries;
mod cluster;
mod error;
mod home;
mod initdb;
mod launch;
mod package;
mod postmaster;
mod server_user;
mod settings;
mod shelf;

pub use address::Address;
pub use binaries::{Binaries, OLDEST_MAJOR, Search, Version, cache_dir, find_binaries, find_npm};
pub use cluster::Cluster;
pub use error::Error;
pub use package::{Means, Package};
pub use settings::{Durability, Settings};
