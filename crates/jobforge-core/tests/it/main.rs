//! Stories of the core crate on a real Postgres, by behaviour.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod batches;
mod connections;
mod dead_letters;
mod gathered;
mod identity;
mod keys;
mod lifecycle;
mod looks;
mod migrations;
mod operating;
mod operations;
mod pooler;
mod refusals;
mod reports;
mod rules;
mod story;
mod upkeep;
