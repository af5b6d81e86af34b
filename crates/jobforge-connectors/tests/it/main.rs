//! Stories of commands and connectors, on a real Postgres, with real programs and servers.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod command;
mod configs;
mod egress;
mod generators;
mod http;
mod server;
mod story;
mod support;
mod webhook;
